import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { choiceAdvantages, hasSignal, LearningError, plainSampling } from '../../src/learning/index.ts';
import { groupAdvantages, makeDatums } from './support.ts';

const value = fc.double({ min: -100, max: 100, noNaN: true });
const anyOptions = fc.record({
  scaleRewards: fc.boolean(),
  advantageBalance: fc.double({ min: -1, max: 1, noNaN: true }),
});
const plain = { scaleRewards: false, advantageBalance: 0 };
const config = {
  scale_rewards: false,
  advantage_balance: 0,
  normalize_advantages: false,
  entropy_coefficient: 0,
  kl_penalty_coef: 0,
  kl_penalty_reference_model: null,
};

/** A history with a choice of two tokens for each credit. */
const history = (...credits: (number | null)[]) => ({
  tokens: [7, ...credits.flatMap(() => [1, 2])],
  spans: credits.map((credit, index) => ({
    ...{ start: 1 + 2 * index, length: 2, logprobs: [-1, -2], sampling: plainSampling, constraint: null },
    credit,
  })),
});

describe('choiceAdvantages', () => {
  it('gives trajectories equal weight in the baseline, whatever their number of choices', () => {
    // Means 2 and 0, so the baseline is 1.
    const group = [
      { reward: 0, credits: [1, 2, 3] },
      { reward: 0, credits: [null] },
    ];
    expect(choiceAdvantages(group, plain)).toEqual([[0, 1, 2], [-1]]);
    const deviation = Math.sqrt(((0 + 1 + 4) / 3 + 1) / 2) + 1e-6;
    const [scaled] = choiceAdvantages(group, { ...plain, scaleRewards: true });
    expect(scaled?.[2]).toBeCloseTo(2 / deviation, 12);
  });

  it('equals GRPO bit for bit if no choice is credited, or each with its own reward', () => {
    const trajectory = fc.record({ reward: value, choices: fc.integer({ min: 0, max: 7 }) });
    fc.assert(
      fc.property(fc.array(trajectory, { maxLength: 8 }), anyOptions, fc.boolean(), (group, options, own) => {
        const credited = group.map(({ reward, choices }) => ({
          reward,
          credits: Array.from({ length: choices }, () => (own ? reward : null)),
        }));
        const expected = groupAdvantages(
          group.map(({ reward }) => reward),
          options,
        );
        choiceAdvantages(credited, options).forEach((advantages, index) => {
          for (const advantage of advantages) expect(advantage).toBe(expected[index]);
        });
      }),
      { seed: 11, numRuns: 1000 },
    );
  });

  it('adds up to zero over the trajectories’ means', () => {
    const credits = fc.array(fc.option(value), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(fc.record({ reward: value, credits }), { minLength: 1, maxLength: 8 }),
        (group) => {
          const sum = choiceAdvantages(group, plain).reduce(
            (total, values) => total + values.reduce((a, b) => a + b, 0) / values.length,
            0,
          );
          expect(Math.abs(sum)).toBeLessThan(1e-9);
        },
      ),
      { seed: 12, numRuns: 1000 },
    );
  });

  it('has a signal within a single trajectory, and none if the credits are equal within rounding', () => {
    expect(hasSignal([{ reward: 0, credits: [1, 0] }])).toBe(true);
    expect(hasSignal([{ reward: 0.3, credits: [0.1 + 0.2, null] }])).toBe(false);
    expect(hasSignal([])).toBe(false);
  });

  it('refuses credits that are not finite numbers, by path', () => {
    const group = (credit: number) => [{ reward: 0, credits: [null, credit] }];
    expect(() => choiceAdvantages(group(Number.NaN), plain)).toThrow(LearningError);
    expect(() => choiceAdvantages(group(1e31), plain)).toThrow(/Choice 1 of trajectory 0 .* 1e\+31/);
  });
});

describe('makeDatums with credit', () => {
  const group = {
    trajectories: [
      { reward: 9, sequences: [history(1, 0), history(null)] },
      { reward: 1, sequences: [history(null)] },
    ],
  };

  it('gives each choice its advantage in all histories, and trajectories the same weight', () => {
    const { datums, counts } = makeDatums([group], config);
    const seen = datums.map(({ spans }) => spans.map(({ advantage, weight }) => ({ advantage, weight })));
    const long = 1 / (2 * 6);
    expect(seen.flat().map(({ weight }) => weight)).toEqual([long, long, long, 1 / 4]);
    const advantages = seen.flat().map(({ advantage }) => advantage);
    const baseline = (10 / 3 + 1) / 2;
    [1, 0, 9, 1].forEach((own, index) => {
      expect(advantages[index]).toBeCloseTo(own - baseline, 12);
    });
    expect(datums.every(({ spans }) => spans.every((span) => !('credit' in span)))).toBe(true);
    expect(counts).toMatchObject({ num_credited_choices: 2, num_groups_trainable: 1, num_trajectories: 2 });
  });

  it('keeps a choice without advantage, with its weight, in a trajectory that trains', () => {
    const { datums } = makeDatums(
      [{ trajectories: [{ reward: 0, sequences: [history(1, 0, -1)] }] }],
      config,
    );
    expect(datums[0]?.spans.map(({ advantage, weight }) => [advantage, weight])).toEqual([
      [1, 1 / 6],
      [0, 1 / 6],
      [-1, 1 / 6],
    ]);
  });

  it('divides by the mean of |A| over decisions if advantages are normalised', () => {
    const trajectories = [{ reward: 0, sequences: [history(3, 0, 0)] }];
    const { datums } = makeDatums([{ trajectories }], { ...config, normalize_advantages: true });
    // A = 2, -1, -1, whose sizes are 4 / 3 in the mean.
    const normalised = datums[0]?.spans.map(({ advantage }) => advantage) ?? [];
    [1.5, -0.75, -0.75].forEach((expected, index) => {
      expect(normalised[index]).toBeCloseTo(expected, 12);
    });
  });
});
