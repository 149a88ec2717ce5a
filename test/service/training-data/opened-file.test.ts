import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readFileUrl } from '../../../src/service/training-data/from-file.ts';
import { resolveSources } from '../../../src/service/training-data/sources.ts';
import { temporaryFolder } from '../../support/files.ts';

test('a folder that becomes a link between check and opening is refused, even if it is restored', async () => {
  const [allowed, outside] = [await temporaryFolder(), await temporaryFolder()];
  /** Called between the check of a path and its opening, and between the opening and the next check. */
  const between = { opening: () => {}, opened: () => {} };
  const { open } = promises;
  const spy = vi.spyOn(promises, 'open').mockImplementation(async (...parameters) => {
    between.opening();
    const file = await open(...parameters);
    between.opened();
    return file;
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    spy.mockRestore();
    syncBuiltinESMExports();
  });
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
    refused: expect.stringContaining('is not readable'),
    text: '',
  });
  putBack();
  between.opened = putBack;
  expect(await read()).toEqual({ refused: expect.stringContaining('changed while it was opened'), text: '' });
});
