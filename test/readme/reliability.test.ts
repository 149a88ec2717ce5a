import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './programs.ts';

it('each promise of README’s Reliability names a test that is there', async () => {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const section = readme.slice(readme.indexOf('## Reliability'), readme.indexOf('## Where to go next'));
  const rows = section.split('\n').filter((line) => /^\| [A-Z]/.test(line) && !line.startsWith('| Promise'));
  expect(rows.length).toBeGreaterThan(30);
  for (const row of rows) {
    const tests = [...row.matchAll(/\]\((test\/[^)]+)\)/g)].map(([, path = '']) => path);
    expect([row, tests.length]).toEqual([row, expect.toSatisfy((count: number) => count > 0)]);
    for (const path of tests) await access(join(root, path));
  }
});
