import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { beforeEach, expect, test } from 'vitest';
import { RunDirectory, runFiles } from '../../../src/training/run-directory.ts';
import { RunError } from '../../../src/util/run-error.ts';
import { temporaryFolder } from '../../support/files.ts';

let path: string;
beforeEach(async () => {
  path = await temporaryFolder();
});

test('a run in progress cannot be resumed; afterwards it can', async () => {
  const first = await RunDirectory.create(path);
  await first.write(runFiles.config, {});
  await expect(RunDirectory.resume(path)).rejects.toThrow(
    expect.objectContaining({ constructor: RunError, code: 'run_in_use' }),
  );
  await expect(RunDirectory.open(path)).rejects.toThrow(/Another run is using .* Wait for its end, stop it/);
  first.release();
  first.release();
  const second = await RunDirectory.resume(path);
  await expect(RunDirectory.resume(path)).rejects.toMatchObject({ code: 'run_in_use' });
  second.release();
});

test('another process holds the lock until it is killed', async () => {
  const module = new URL('../../../src/training/run-directory.ts', import.meta.url).href;
  const script = `
    const { RunDirectory, runFiles } = await import(${JSON.stringify(module)});
    const directory = await RunDirectory.create(${JSON.stringify(path)});
    await directory.write(runFiles.config, {});
    process.stdout.write('held');
    setInterval(() => directory.path, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  try {
    await once(child.stdout, 'data');
    await expect(RunDirectory.resume(path)).rejects.toThrow(
      expect.objectContaining({ constructor: RunError, code: 'run_in_use' }),
    );
  } finally {
    child.kill('SIGKILL');
  }
  await ended;
  (await RunDirectory.resume(path)).release();
});
