import fc from 'fast-check';
import { compare, defineEnvironment, describeComparison, type Evaluation } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { signFlipTest } from '../../src/evaluation/compare-pair.ts';

/** All assignments of signs, counted by their bits. */
function enumerated(differences: readonly number[]): number {
  const observed = Math.abs(differences.reduce((sum, difference) => sum + difference, 0));
  let asLarge = 0;
  for (let bits = 0; bits < 2 ** differences.length; bits++) {
    const sum = differences.reduce((total, size, at) => total + ((bits >> at) & 1 ? size : -size), 0);
    if (Math.abs(sum) >= observed - 1e-9) asLarge++;
  }
  return asLarge / 2 ** differences.length;
}

test("Darwin's plants give Fisher's p value", () => {
  // Heights of crossed less self-fertilised plants in eighths of an inch; Fisher, "The Design of Experiments", 1935,
  // section 21: 863 of the 32,768 assignments give a sum of at least 314.
  const differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];
  expect(signFlipTest(differences, 0)).toEqual({
    name: 'paired sign-flip permutation test',
    method: 'exact',
    assignments: 32_768,
    pValue: (2 * 863) / 32_768,
  });
});

test('the exact test equals an enumeration', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.integer({ min: -4, max: 4 }).map((tenths) => tenths / 10),
        { minLength: 1, maxLength: 11 },
      ),
      (differences) => {
        expect(signFlipTest(differences, 0).pValue).toBeCloseTo(enumerated(differences), 12);
      },
    ),
    { numRuns: 200, seed: 2 },
  );
  expect(signFlipTest([1, 1, 1, 1, 1], 0).pValue).toBe(2 / 32);
  expect(signFlipTest([0, 0], 0).pValue).toBe(1);
});

test('random assignments agree with the enumeration, repeat by seed, and never give 0', () => {
  const differences = Array.from({ length: 18 }, (_, index) => ((index * 7) % 11) - 3.5);
  const exact = enumerated(differences);
  const drawn = signFlipTest(differences, 3);
  expect(drawn).toMatchObject({ method: 'monte_carlo', assignments: 10_000 });
  // Five standard deviations of a share of 10,000.
  expect(Math.abs(drawn.pValue - exact)).toBeLessThan(5 * Math.sqrt((exact * (1 - exact)) / 10_000));
  expect(signFlipTest(differences, 3)).toEqual(drawn);
  const all = Array.from({ length: 40 }, () => 1);
  expect(signFlipTest(all, 0).pValue).toBe(1 / 10_001);
});

function evaluation(policy: string, rewards: Record<string, number | null>): Evaluation {
  const perScenario = Object.entries(rewards).map(([key, reward]) => ({
    key,
    scenario: key,
    reward,
    success: reward === null ? null : Number(reward > 0.5),
    completed: Number(reward !== null),
    rollouts: 1,
    judged: 0,
    successes: 0,
    title: key,
    tokens: null,
    milliseconds: [],
  }));
  const counts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  const none = {
    reward: null,
    success: null,
    passAt: [],
    groups: [],
    counts,
    failures: [],
    seconds: 0,
    rewards: {},
    successBy: 'metric success',
  };
  return { environment: 'sums', policy, perScenario, ...none };
}

test('scenarios are paired by key; those with only one score are listed', () => {
  const before = evaluation('m:step1', { a: 0, b: 0.4, c: 1, d: 0.5, e: null, f: 1 });
  const after = evaluation('m:step9', { f: null, d: 0.5, c: 0.8, b: 1, a: 1, g: 1 });
  const comparison = compare(before, after);
  expect(comparison).toMatchObject({
    measure: 'reward',
    a: 'm:step1',
    b: 'm:step9',
    difference: {
      mean: expect.closeTo((1 + 0.6 - 0.2 + 0) / 4, 12),
      count: 4,
      interval95: { method: 'normal' },
    },
    // The two assignments of the observed size or more, of 8: all three up, the two larger up.
    test: { method: 'exact', assignments: 8, pValue: 4 / 8 },
    wins: 2,
    losses: 1,
    ties: 1,
    onlyInA: ['f'],
    onlyInB: ['g'],
  });
  expect(comparison.pairs[1]).toEqual({ key: 'b', a: 0.4, b: 1, difference: 0.6 });
  expect(compare(before, after, { measure: 'success' })).toMatchObject({ wins: 2, losses: 0, ties: 2 });
  expect(describeComparison(comparison)).toMatchInlineSnapshot(`
    "reward of m:step9 minus that of m:step1
    difference 0.350 [-0.190, 0.890] (95%, normal, 4 scenarios)
    paired sign-flip permutation test, exact (8 assignments): p = 0.500
    scenarios  2 better, 1 worse, 1 the same
    only with m:step1: 1 (f)
    only with m:step9: 1 (g)
    "
  `);
});

test('rewards that differ are named, whatever their white space; rewards of an earlier record are unknown', () => {
  type Reward = (context: { outcome: number }) => number;
  const rewardsOf = (rewards: Record<string, Reward | { weight: number; reward: Reward }>) =>
    defineEnvironment({ name: 'sums', scenario: z.string(), rollout: async () => 1, rewards }).definition
      .rewards;
  const correct = ({ outcome }: { outcome: number }) => Number(outcome === 1);
  // biome-ignore format: the white space is what is tested.
  const spaced = ({ outcome }: { outcome: number }) => Number( outcome   === 1);
  const strict = ({ outcome }: { outcome: number }) => Number(outcome === 2);
  const before = {
    ...evaluation('m:step1', { a: 0 }),
    rewards: rewardsOf({ correct, brief: correct, polite: correct }),
  };
  const same = { ...before, rewards: rewardsOf({ correct: spaced, brief: correct, polite: correct }) };
  expect(compare(before, same).rewardChanges).toEqual([]);
  const after = {
    ...before,
    policy: 'm:step9',
    rewards: rewardsOf({ correct: strict, brief: { weight: 0.5, reward: correct }, safe: correct }),
  };
  const comparison = compare(before, after);
  expect(comparison.rewardChanges).toEqual([
    'reward "correct" has another function',
    'reward "brief" has weight 0.5 and had 1',
    'reward "polite" is gone',
    'reward "safe" is new',
  ]);
  expect(describeComparison(comparison)).toContain(
    'warning: with m:step9, reward "correct" has another function: the scores differ for that too',
  );
  const { rewards, ...earlier } = before;
  expect(compare(earlier, after).rewardChanges).toEqual([]);
});

test('evaluations without a common scenario have no difference; different environments are refused', () => {
  const a = evaluation('a', { x: 1 });
  expect(compare(a, evaluation('b', { y: 1 }))).toMatchObject({ difference: null, test: null, pairs: [] });
  const other = { ...evaluation('b', { x: 1 }), environment: 'desk' };
  expect(() => compare(a, other)).toThrow(/"sums" and "desk"/);
});

test.each([
  ['reward', { a: 0, b: 0, c: 1 }, { a: 1, b: 1, c: 1 }, 1],
  ['success', { a: 0, b: 0, c: 1 }, { a: 1, b: 1, c: 1 }, 1],
  // Nothing tells the bounds of such rewards.
  ['reward', { a: 0, b: 0, c: 0.5 }, { a: 1, b: 1, c: 0.5 }, expect.closeTo(1.32, 2)],
] as const)('a difference of %s of %o and %o is shown up to %o', (measure, before, after, high) => {
  const comparison = compare(evaluation('m:step1', before), evaluation('m:step2', after), { measure });
  expect(comparison.difference?.interval95?.high).toEqual(high);
});
