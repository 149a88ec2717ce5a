import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { DurableAppends } from '../../src/util/durable-files.ts';
import { temporaryFolder } from '../support/files.ts';

it('makes lines when they are written, those that arrived meanwhile together and in order', async () => {
  const path = join(await temporaryFolder(), 'lines');
  const file = new DurableAppends(path);
  const made: string[] = [];
  const line = (name: string) => () => {
    made.push(name);
    return `${name}\n`;
  };
  const first = file.append(line('a'));
  await Promise.resolve();
  await Promise.resolve();
  const others = [file.append(line('b')), file.append(line('c'))];
  expect(others[0]).toBe(others[1]);
  await first;
  await Promise.all(others);
  expect(made).toEqual(['a', 'b', 'c']);
  expect(await readFile(path, 'utf8')).toBe('a\nb\nc\n');
});

it('writes nothing after a failure, even when the file can be written again', async () => {
  const folder = join(await temporaryFolder(), 'later');
  const path = join(folder, 'lines');
  const file = new DurableAppends(path);
  await expect(file.append(() => 'a\n')).rejects.toMatchObject({ code: 'storage_failed' });
  await mkdir(folder);
  await expect(file.append(() => 'b\n')).rejects.toMatchObject({ code: 'storage_failed' });
  await expect(readFile(path)).rejects.toMatchObject({ code: 'ENOENT' });
});

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

it('keeps nothing of the lines that come after a failure', async () => {
  const file = new DurableAppends(join(await temporaryFolder(), 'missing', 'lines'));
  const held: WeakRef<object>[] = [];
  const fail = async () => {
    const group = { text: 'a\n' };
    held.push(new WeakRef(group));
    await expect(file.append(() => group.text)).rejects.toMatchObject({ code: 'storage_failed' });
  };
  for (let line = 0; line < 4; line++) await fail();
  await new Promise(setImmediate);
  collectGarbage();
  expect(held.map((line) => line.deref())).toEqual(held.map(() => undefined));
  await fail();
});
