import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from '../support/programs.ts';

it('the README has links to files of the package only', async () => {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const { files }: { files: string[] } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const links = [...readme.matchAll(/\]\((?![a-z]+:|#)([^)#]+)/g)].map(([, path = '']) => path);
  expect(links.length).toBeGreaterThan(20);
  const isPacked = (path: string) => files.some((file) => path === file || path.startsWith(`${file}/`));
  expect(links.filter((path) => !isPacked(path))).toEqual([]);
});
