import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { RequestValidationError } from '../../src/service/errors.ts';
import { validateItems } from '../../src/service/validation.ts';

/** Takes longer than a slice. */
const slow = z.string().transform((text) => {
  const until = performance.now() + 10;
  while (performance.now() < until);
  return text.toUpperCase();
});

test('a long list is validated in slices, between which others have their turn', async () => {
  let turns = 0;
  let done = false;
  const others = (async () => {
    for (; !done; turns++) await nextTurn();
  })();
  expect(await validateItems(slow, ['a', 'b', 'c'], ['body', 'list'])).toEqual(['A', 'B', 'C']);
  done = true;
  await others;
  expect(turns).toBeGreaterThanOrEqual(2);
});

test('what is wrong is said with its place in the whole body', async () => {
  const item = z.object({ reward: z.number() });
  const list = [{ reward: 1 }, { reward: 'x' }, {}];
  const validating = validateItems(item, list, ['body', 'list']);
  await expect(validating).rejects.toBeInstanceOf(RequestValidationError);
  await expect(validating).rejects.toMatchObject({
    issues: [
      { loc: ['body', 'list', 1, 'reward'], type: 'float_type', input: 'x' },
      { loc: ['body', 'list', 2, 'reward'], type: 'missing' },
    ],
  });
});
