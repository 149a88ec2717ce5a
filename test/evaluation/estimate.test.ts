import fc from 'fast-check';
import { expect, test } from 'vitest';
import { estimate, estimateReward, estimateShare, normalInterval } from '../../src/evaluation/estimate.ts';

test('the estimate of 0, 0, 1, 1 equals one by hand', () => {
  // Sample variance 1/3, standard error sqrt(1/12).
  expect(estimate([0, 0, 1, 1])).toEqual({
    mean: 0.5,
    count: 4,
    standardError: expect.closeTo(0.288675, 6),
    interval95: { low: expect.closeTo(-0.065803, 6), high: expect.closeTo(1.065803, 6), method: 'normal' },
  });
  expect(estimate([2])).toEqual({ mean: 2, count: 1, standardError: null, interval95: null });
  expect(estimate([])).toBeNull();
});

// Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
test.each([
  [81, 263, 0.2553, 0.3662],
  [15, 148, 0.0624, 0.1605],
  [0, 20, 0, 0.1611],
  [1, 29, 0.0061, 0.1718],
])('%i successes of %i have the published interval', (successes, count, low, high) => {
  const values = Array.from({ length: count }, (_, index) => Number(index < successes));
  expect(estimateShare(values, { trials: count })).toMatchObject({
    mean: successes / count,
    interval95: { low: expect.closeTo(low, 4), high: expect.closeTo(high, 4), method: 'wilson' },
  });
});

test('more rollouts per scenario narrow the interval as far as they are independent', () => {
  const widthOf = (values: number[], trials: number) => {
    const interval = estimateShare(values, { trials })?.interval95;
    return interval ? interval.high - interval.low : Number.NaN;
  };
  // Rollouts of a scenario always agree: 40 of them are worth 10.
  const agreeing = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
  expect(widthOf(agreeing, 40)).toBeCloseTo(widthOf(agreeing, 10), 12);
  // All scenarios alike: as good as 40 independent ones.
  const alike = Array.from({ length: 10 }, () => 0.5);
  const independent = Array.from({ length: 40 }, (_, index) => index % 2);
  expect(widthOf(alike, 40)).toBeCloseTo(widthOf(independent, 40), 12);
});

test('an interval of shares is within [0, 1], contains the mean, and has a width', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.nat(5), { minLength: 2, maxLength: 40 }),
      (rollouts, successes) => {
        const values = successes.map((count) => Math.min(count, rollouts) / rollouts);
        const result = estimateShare(values, { trials: rollouts * values.length });
        const { low, high } = result?.interval95 ?? { low: Number.NaN, high: Number.NaN };
        const mean = result?.mean ?? Number.NaN;
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
        expect(low).toBeLessThanOrEqual(mean + 1e-12);
        expect(high).toBeGreaterThanOrEqual(mean - 1e-12);
        expect(high - low).toBeGreaterThan(0);
      },
    ),
    { numRuns: 500, seed: 5 },
  );
});

test('values outside [0, 1] have a normal interval', () => {
  expect(estimateShare([0, 3], { trials: 2 })).toEqual(estimate([0, 3]));
});

test('rewards of 0 and 1 are a share, other rewards have a normal interval', () => {
  const solved = Array.from({ length: 120 }, (_, index) => Number(index > 0));
  const { low = 0, high = 2 } = estimateReward(solved, solved)?.interval95 ?? {};
  expect([low > 0.95, high < 1]).toEqual([true, true]);
  expect(estimateReward([0.5, 1], [0, 1, 1, 1])).toEqual(estimateShare([0.5, 1], { trials: 4 }));
  expect(estimateReward([0.5, 1], [0.5, 1])).toEqual(estimate([0.5, 1]));
  expect(estimateReward([], [])).toBeNull();
});

test('a difference of shares ends at -1 and 1', () => {
  const intervalOf = (values: number[]) => {
    const difference = estimate(values);
    return difference && normalInterval(difference, { confidence: 0.95, areShares: true });
  };
  expect(intervalOf([1, 1, 0.5])).toEqual({ low: expect.closeTo(0.5067, 4), high: 1, method: 'normal' });
  expect(intervalOf([-1, -1, -0.5])?.low).toBe(-1);
});

// Quantiles as tables of the normal distribution have them.
test.each([
  [0.5, 0.67449],
  [0.9, 1.644854],
  [0.99, 2.575829],
  [0.999, 3.290527],
])('the normal interval of confidence %d is %d standard errors to each side', (confidence, quantile) => {
  const interval = normalInterval({ mean: 1, standardError: 1 }, { confidence, areShares: false });
  expect(interval).toEqual({
    low: expect.closeTo(1 - quantile, 5),
    high: expect.closeTo(1 + quantile, 5),
    method: 'normal',
  });
});
