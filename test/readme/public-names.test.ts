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
  const all = await programs();
  const users = all.filter((code) => code.includes(`from '${entry}'`));
  const exported: Record<string, unknown> = await import(entry);
  // The error classes are the same in every entry.
  const isUsed = (name: string) =>
    (name.endsWith('Error') ? all : users).some((code) => new RegExp(`\\b${name}\\b`).test(code));
  const unused = Object.keys(exported).filter((name) => !isUsed(name));
  expect(unused).toEqual([]);
});

it('martingale exports at most 47 values', async () => {
  expect(Object.keys(await import('martingale')).length).toBeLessThanOrEqual(47);
});
