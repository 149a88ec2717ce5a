import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupStandardDeviation, LearningError } from '../../src/learning/index.ts';
import { groupAdvantages } from './support.ts';

const plain = { scaleRewards: true, advantageBalance: 0 };
const rewardsOf = fc.array(fc.double({ min: -100, max: 100, noNaN: true }), { minLength: 1, maxLength: 16 });
const anyOptions = fc.record({
  scaleRewards: fc.boolean(),
  advantageBalance: fc.double({ min: -1, max: 1, noNaN: true }),
});

/** The formula of the contract. */
function reference(rewards: number[], { scaleRewards, advantageBalance: b }: typeof plain): number[] {
  const n = rewards.length;
  const m = rewards.reduce((a, r) => a + r, 0) / n;
  const s = Math.sqrt(rewards.reduce((a, r) => a + (r - m) ** 2, 0) / n);
  return rewards.map((r) => {
    const a = scaleRewards ? (r - m) / (s + 1e-6) : r - m;
    if (b > 0 && a < 0) return a * (1 - b);
    if (b < 0 && a > 0) return a * (1 + b);
    return a;
  });
}

describe('groupAdvantages', () => {
  it('scales by the population standard deviation plus 1e-6', () => {
    // mean 0.5, deviation 0.5
    expect(groupAdvantages([0, 1, 1, 0], plain)).toEqual(
      [-1, 1, 1, -1].map((sign) => (sign * 0.5) / 0.500001),
    );
    expect(groupAdvantages([1, 2, 6], { ...plain, scaleRewards: false })).toEqual([-2, -1, 3]);
  });

  it.each([[[0.1, 0.1, 0.1]], [[0.1 + 0.2, 0.3]], [[1e9 / 3, 1e9 / 3, 1e9 / 3]], [[0.7]], [[0, 0]]])(
    'is exactly zero for rewards that are equal within rounding: %j',
    (rewards) => {
      for (const scaleRewards of [true, false]) {
        expect(groupAdvantages(rewards, { scaleRewards, advantageBalance: 0 })).toEqual(rewards.map(() => 0));
      }
      expect(groupStandardDeviation(rewards)).toBe(0);
    },
  );

  it('weakens negative advantages above balance 0 and positive ones below it', () => {
    const rewards = [0, 2];
    const unscaled = { scaleRewards: false };
    expect(groupAdvantages(rewards, { ...unscaled, advantageBalance: 0.25 })).toEqual([-0.75, 1]);
    expect(groupAdvantages(rewards, { ...unscaled, advantageBalance: -0.25 })).toEqual([-1, 0.75]);
    expect(groupAdvantages(rewards, { ...unscaled, advantageBalance: 1 })).toEqual([0, 1]);
    expect(groupAdvantages(rewards, { ...unscaled, advantageBalance: -1 })).toEqual([-1, 0]);
  });

  it('is empty for an empty group', () => {
    expect(groupAdvantages([], plain)).toEqual([]);
  });

  it('refuses a reward that is not a finite number, and names it', () => {
    expect(() => groupAdvantages([0, Number.NaN], plain)).toThrow(LearningError);
    expect(() => groupAdvantages([0, Number.POSITIVE_INFINITY], plain)).toThrow(/Trajectory 1 .* Infinity/);
  });

  it('agrees with the formula', () => {
    fc.assert(
      fc.property(rewardsOf, anyOptions, (rewards, options) => {
        const expected = reference(rewards, options);
        groupAdvantages(rewards, options).forEach((advantage, index) => {
          expect(Math.abs(advantage - (expected[index] ?? 0))).toBeLessThan(1e-4);
        });
      }),
      { seed: 2, numRuns: 1000 },
    );
  });

  it('adds up to zero over a group without balance', () => {
    fc.assert(
      fc.property(rewardsOf, fc.boolean(), (rewards, scaleRewards) => {
        const sum = groupAdvantages(rewards, { scaleRewards, advantageBalance: 0 }).reduce(
          (a, b) => a + b,
          0,
        );
        expect(Math.abs(sum)).toBeLessThan(1e-4);
      }),
      { seed: 3, numRuns: 1000 },
    );
  });

  it('refuses rewards whose advantages would overflow', () => {
    const options = { scaleRewards: true, advantageBalance: 0 };
    expect(() => groupAdvantages([1e308, -1e308], options)).toThrow(/reward 1e\+308.*Scale the rewards down/);
    expect(() => groupAdvantages([1.1e9, 0], options)).toThrow(/reward 1100000000.*limit is 1000000000/);
    expect(groupAdvantages([1e9, -1e9], options)[0]).toBeCloseTo(1);
  });

  it('is reordered with the trajectories', () => {
    fc.assert(
      fc.property(rewardsOf, anyOptions, (rewards, options) => {
        const reversed = groupAdvantages([...rewards].reverse(), options).reverse();
        groupAdvantages(rewards, options).forEach((advantage, index) => {
          expect(Math.abs(advantage - (reversed[index] ?? 0))).toBeLessThan(1e-4);
        });
      }),
      { seed: 4, numRuns: 1000 },
    );
  });

  it('never gives two trajectories of equal reward different advantages', () => {
    fc.assert(
      fc.property(rewardsOf, anyOptions, (rewards, options) => {
        const advantages = groupAdvantages([...rewards, ...rewards], options);
        expect(advantages.slice(0, rewards.length)).toEqual(advantages.slice(rewards.length));
      }),
      { seed: 5, numRuns: 500 },
    );
  });
});
