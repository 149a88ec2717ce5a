import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { chatLimits, requestLimits, trainingLimits } from '../../../src/contract/index.ts';

it('every limit of a field stands in the README', async () => {
  const readme = await readFile(new URL('../../../README.md', import.meta.url), 'utf8');
  const [, section = ''] = /#### Of fields\n([\s\S]*?)\n##? /.exec(readme) ?? [];
  const limits = Object.entries({ ...requestLimits, ...chatLimits, ...trainingLimits });
  const untold = limits
    // The greatest whole number of a token is that of its format.
    .filter(([name]) => name !== 'largestToken')
    .filter(([, limit]) => !new RegExp(`(?<![\\d,])${limit.toLocaleString('en')}(?![\\d,])`).test(section));
  expect(untold).toEqual([]);
});
