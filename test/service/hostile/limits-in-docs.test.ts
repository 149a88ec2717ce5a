import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { chatLimits, requestLimits, trainingLimits } from '../../../src/contract/index.ts';

it('every limit of a field is in docs/service.md', async () => {
  const page = await readFile(new URL('../../../docs/service.md', import.meta.url), 'utf8');
  const [, section = ''] = /### Limits of fields\n([\s\S]*?)\n##? /.exec(page) ?? [];
  const limits = Object.entries({ ...requestLimits, ...chatLimits, ...trainingLimits });
  const missing = limits
    // The maximum of a token follows from its format.
    .filter(([name]) => name !== 'maxToken')
    .filter(([, limit]) => !new RegExp(`(?<![\\d,])${limit.toLocaleString('en')}(?![\\d,])`).test(section));
  expect(missing).toEqual([]);
});
