import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource } from '../../support/programs.ts';
import { start } from '../harness.ts';

const modeOf = (path: string) => statSync(path).mode & 0o777;

test('files of the service and the harness are private to their user, whatever the umask', async () => {
  const folder = await temporaryFolder();
  const child = fileURLToPath(new URL('child.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...fromSource, child, folder]);
  const modes = new Map<string, string>(Object.entries(JSON.parse(stdout)));
  const wrong = [...modes].filter(([, mode]) => mode !== 'folder 700' && mode !== 'file 600');
  expect(wrong).toEqual([]);
  // Files of each kind exist.
  for (const kind of [
    /data\/martingale\.sqlite$/,
    /data\/martingale\.sqlite-wal$/,
    /data\/keys\.sqlite-wal$/,
    /jobs\/[\w-]+\.jsonl\.gz$/,
    /groups\/group-\w+$/,
    /uploads\/\w+\.jsonl$/,
    /checkpoints\/step-1\/model\.safetensors$/,
    /checkpoints\/step-0\/optimizer\.safetensors$/,
    /logs\/train\.jsonl\.gz$/,
    /runs\/first\/config\.json$/,
    /runs\/first\/run\.lock$/,
    /runs\/first\/trajectories\/.+$/,
    /runs\/first\/metrics\.jsonl$/,
    /evaluations\/first\/.+\.jsonl$/,
    /recordings\/calls\.jsonl$/,
    /verdicts\/jokes\.jsonl$/,
  ])
    expect(
      [...modes.keys()].filter((path) => kind.test(path)),
      String(kind),
    ).not.toEqual([]);
}, 60_000);

test('an existing data folder keeps its mode; new files in it are private', async () => {
  const dataFolder = join(await temporaryFolder(), 'shared');
  mkdirSync(dataFolder);
  chmodSync(dataFolder, 0o755);
  await start({ dataFolder });
  expect(modeOf(dataFolder)).toBe(0o755);
  for (const name of ['models', 'jobs', 'uploads', 'incoming'])
    expect(modeOf(join(dataFolder, name))).toBe(0o700);
  for (const name of ['martingale.sqlite', 'keys.sqlite']) expect(modeOf(join(dataFolder, name))).toBe(0o600);
});
