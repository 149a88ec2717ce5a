import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { fromSource } from '../support/programs.ts';

const example = fileURLToPath(new URL('../../examples/own-loop.ts', import.meta.url));

test('the loop written by hand trains, in under 60 lines', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [...fromSource, example, '3']);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.slice(0, 3)).toEqual(
    [0, 1, 2].map((step) => expect.stringMatching(`^${step} [01]\\.\\d\\d$`)),
  );
  expect(lines.at(-1)).toBe('trained local/examples/own-loop:step3');
  expect((await readFile(example, 'utf8')).trimEnd().split('\n').length).toBeLessThan(60);
});
