import fc from 'fast-check';
import { expect, test } from 'vitest';
import { countRepeats, repeatedShare } from '../../src/training/step-report.ts';

test.each([
  [[], 0],
  [[1, 2, 3], 0],
  [[1, 2, 3, 4, 5, 6], 0],
  [[1, 2, 3, 4, 1, 2, 3, 4], 1 / 5],
  [[7, 7, 7, 7, 7, 7], 2 / 3],
  [[12, 3, 4, 5, 1, 23, 4, 5], 0],
])('of %j it is %f', (tokens, share) => {
  expect(repeatedShare(tokens)).toBeCloseTo(share, 12);
});

test('a doubled reply has at least as many repeats as the reply has sequences', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 5 }), { minLength: 4, maxLength: 40 }), (tokens) => {
      const once = countRepeats(tokens);
      const twice = countRepeats([...tokens, ...tokens]);
      expect(twice.sequences).toBe(2 * tokens.length - 3);
      expect(twice.repeated).toBeGreaterThanOrEqual(once.repeated + once.sequences);
    }),
    { seed: 20261121 },
  );
});
