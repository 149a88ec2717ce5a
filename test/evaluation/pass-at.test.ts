import fc from 'fast-check';
import { expect, test } from 'vitest';
import { passAllOf, passAnyOf, passAt } from '../../src/evaluation/estimate.ts';

/** Every choice of `k` of the rollouts. */
function* choices(rollouts: readonly boolean[], k: number): Generator<boolean[]> {
  if (k === 0) yield [];
  else
    for (const [index, rollout] of rollouts.entries())
      for (const rest of choices(rollouts.slice(index + 1), k - 1)) yield [rollout, ...rest];
}

test('pass@k and pass^k are the shares of all choices of k rollouts', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }), fc.nat(8), (rollouts, offset) => {
      const k = 1 + (offset % rollouts.length);
      const all = [...choices(rollouts, k)];
      const successes = rollouts.filter(Boolean).length;
      const share = (test: (choice: boolean[]) => boolean) => all.filter(test).length / all.length;
      expect(passAnyOf(k, rollouts.length, successes)).toBeCloseTo(
        share((choice) => choice.some(Boolean)),
        12,
      );
      expect(passAllOf(k, rollouts.length, successes)).toBeCloseTo(
        share((choice) => choice.every(Boolean)),
        12,
      );
    }),
    { numRuns: 300, seed: 9 },
  );
});

test('3 successes of 10 make a pass@5 of 1 - 21/252 and a pass^2 of 3/45', () => {
  expect(passAnyOf(5, 10, 3)).toBeCloseTo(1 - 21 / 252, 12);
  expect(passAllOf(2, 10, 3)).toBeCloseTo(3 / 45, 12);
  // No factorial overflows.
  expect(passAnyOf(100, 10_000, 50)).toBeCloseTo(0.396, 3);
  expect(passAnyOf(3, 2, 1)).toBeNull();
});

test('scenarios with fewer than k rollouts are left out', () => {
  const scenarios = [
    { judged: 2, successes: 1 },
    { judged: 2, successes: 2 },
    { judged: 1, successes: 1 },
  ];
  expect(passAt(2, scenarios)).toMatchObject({
    k: 2,
    any: { mean: 1, count: 2 },
    all: { mean: 0.5, count: 2 },
  });
  expect(passAt(1, scenarios)).toMatchObject({ any: { mean: 2.5 / 3, count: 3 }, all: { mean: 2.5 / 3 } });
  expect(passAt(3, scenarios)).toEqual({ k: 3, any: null, all: null });
});
