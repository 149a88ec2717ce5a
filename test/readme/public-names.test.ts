import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from '../support/programs.ts';
import { typeScriptSnippets } from './documents.ts';

/** Helpers of the commands and of tests, which programs need not call. */
const withoutExamples = ['./cli', './client', './service', './package.json'];

/** The other entries of the package, as programs import them. */
const manifest: { exports: Record<string, unknown> } = JSON.parse(
  await readFile(join(root, 'package.json'), 'utf8'),
);
const entries = Object.keys(manifest.exports)
  .filter((path) => !withoutExamples.includes(path))
  .map((path) => path.replace('.', 'martingale'));

/** What a reader can copy: snippets, examples and recipes. */
async function programs(): Promise<string[]> {
  const files = await Promise.all(
    ['examples', 'recipes'].map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true }))
        .filter((file) => file.endsWith('.ts'))
        .map((file) => readFile(join(root, folder, file), 'utf8')),
    ),
  );
  const snippets = await typeScriptSnippets();
  return [...snippets.map(({ code }) => code), ...(await Promise.all(files.flat()))];
}

it.each(entries)('%s exports no value without an example', async (entry) => {
  const users = (await programs()).filter((code) => code.includes(`from '${entry}'`));
  const exported: Record<string, unknown> = await import(entry);
  const unused = Object.keys(exported).filter(
    (name) => !name.endsWith('Error') && !users.some((code) => new RegExp(`\\b${name}\\b`).test(code)),
  );
  expect(unused).toEqual([]);
});
