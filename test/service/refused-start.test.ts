import { existsSync } from 'node:fs';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startService } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { start } from './harness.ts';

it('an unusable data folder is refused with its path and a remedy', async () => {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, '');
  const refused = [file, join(file, 'data'), join(file, 'data', 'deeper')];
  // Node's recursive mkdir never returns here.
  if (existsSync('/proc/self')) refused.push('/proc/nope');
  for (const dataFolder of refused)
    await expect(startService({ engine: new ScriptedEngine(), dataFolder })).rejects.toMatchObject({
      code: 'bad_data_folder',
      message: expect.stringMatching(`cannot keep its data in ${dataFolder}: E.*Choose another data folder`),
    });
});

it('a data folder is created with its parents, private to this user', async () => {
  const folder = await temporaryFolder();
  await start({ dataFolder: join(folder, 'a', 'b', 'c') });
  for (const path of ['a', 'a/b', 'a/b/c']) expect((await stat(join(folder, path))).mode & 0o777).toBe(0o700);
});

it('a key that is not a valid header value is refused, without showing it, before any file is created', async () => {
  const dataFolder = join(await temporaryFolder(), 'data');
  for (const apiKey of [' ', 'my secret', 'my-secret\n', 'schlüssel']) {
    const started = startService({ engine: new ScriptedEngine(), dataFolder, apiKey });
    await expect(started).rejects.toMatchObject({
      code: 'bad_option',
      message: expect.stringContaining('must consist of printable ASCII'),
    });
    await expect(started).rejects.not.toMatchObject({
      message: expect.stringContaining(apiKey.trim() || 'secret'),
    });
  }
  expect(existsSync(dataFolder)).toBe(false);
});
