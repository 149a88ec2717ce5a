import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readFileUrl } from '../../../src/service/training-data/from-file.ts';
import { resolveSources } from '../../../src/service/training-data/sources.ts';
import { temporaryFolder } from '../harness.ts';

/** What happens between the look at a path and its opening, and between the opening and the next look. */
const between: { opening: () => void; opened: () => void } = { opening: () => {}, opened: () => {} };

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>();
  const open: typeof real.open = async (...parameters) => {
    between.opening();
    const file = await real.open(...parameters);
    between.opened();
    return file;
  };
  return { ...real, open };
});

test('a folder that becomes a link between the look at it and the opening leads nowhere, also when it is put back', async () => {
  const [allowed, outside] = [await temporaryFolder(), await temporaryFolder()];
  onTestFinished(() => void Object.assign(between, { opening: () => {}, opened: () => {} }));
  const folder = join(allowed, 'data');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a.jsonl'), 'mine');
  writeFileSync(join(outside, 'a.jsonl'), 'secret');
  const sources = await resolveSources({ folders: [allowed] });
  const read = async () => {
    const pieces: string[] = [];
    const take = async (bytes: Uint8Array) => void pieces.push(Buffer.from(bytes).toString());
    const url = pathToFileURL(join(folder, 'a.jsonl'));
    const refused = await readFileUrl(url, sources, { limit: 100, take }).then(
      () => null,
      (error: Error) => error.message,
    );
    return { refused, text: pieces.join('') };
  };
  expect(await read()).toEqual({ refused: null, text: 'mine' });

  const aside = join(allowed, 'aside');
  const link = () => {
    renameSync(folder, aside);
    symlinkSync(outside, folder);
  };
  const putBack = () => {
    rmSync(folder);
    renameSync(aside, folder);
  };
  between.opening = link;
  expect(await read()).toEqual({
    refused: expect.stringContaining('nothing that may be read here'),
    text: '',
  });
  putBack();
  between.opened = putBack;
  expect(await read()).toEqual({ refused: expect.stringContaining('changed while it was opened'), text: '' });
});
