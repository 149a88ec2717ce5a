import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countDecisions, plainSampling, type RewardedGroup } from '../../src/learning/index.ts';
import { makeDatums } from './support.ts';

const sampling = plainSampling;
const config = {
  scale_rewards: false,
  advantage_balance: 0,
  normalize_advantages: false,
  entropy_coefficient: 0,
  kl_penalty_coef: 0,
  kl_penalty_reference_model: null,
};

/** A sequence of one context token and one span with these sampled log-probabilities. */
const sequence = (...logprobs: (number | null)[]) => ({
  tokens: [7, ...logprobs.map((_, index) => index)],
  spans: [{ start: 1, length: logprobs.length, logprobs, sampling, constraint: null }],
});

const logprob = fc.constantFrom(0, null, -0.5, -2);
const trajectory = fc.record({
  reward: fc.constantFrom(0, 0.1, 0.5, 1),
  sequences: fc.array(
    fc.array(logprob, { minLength: 1, maxLength: 12 }).map((logprobs) => sequence(...logprobs)),
    { maxLength: 3 },
  ),
});
const groups = fc.array(fc.record({ trajectories: fc.array(trajectory, { maxLength: 5 }) }), {
  maxLength: 5,
});

describe('countDecisions', () => {
  it('leaves out tokens of probability 1 and keeps those of unknown probability', () => {
    expect(countDecisions({ logprobs: [0, -0, null, -1e-9, -3] })).toBe(3);
  });
});

describe('makeDatums', () => {
  it.each([
    [{ start: 2 }, 'span_out_of_bounds'],
    [{ start: 0 }, 'span_out_of_bounds'],
    [{ logprobs: [-1] }, 'span_logprobs_length'],
  ])('refuses a span that does not fit its tokens: %j', (changed, code) => {
    const { tokens, spans } = sequence(-1, -1);
    const sequences = [{ tokens, spans: spans.map((span) => ({ ...span, ...changed })) }];
    const group = { trajectories: [{ reward: 1, sequences }] };
    expect(() => makeDatums([group], config)).toThrow(expect.objectContaining({ code }));
  });

  it('gives every trajectory the same weight, over all its histories', () => {
    const group = {
      trajectories: [
        { reward: 0, sequences: [sequence(-1, -1, 0), sequence(-1, -1)] },
        { reward: 1, sequences: [sequence(-1)] },
      ],
    };
    const { datums, counts } = makeDatums([group], config);
    expect(datums.map(({ spans }) => spans.map(({ advantage, weight }) => ({ advantage, weight })))).toEqual([
      [{ advantage: -0.5, weight: 1 / 8 }],
      [{ advantage: -0.5, weight: 1 / 8 }],
      [{ advantage: 0.5, weight: 1 / 2 }],
    ]);
    expect(counts).toEqual({
      num_credited_choices: 0,
      num_constrained_choices: 0,
      num_groups_submitted: 1,
      num_groups_trainable: 1,
      num_groups_without_signal: 0,
      num_trajectories: 2,
      num_trainable_tokens: 5,
      num_datums: 3,
      train_tokens: 4 + 3 + 2,
      reward: 0.5,
      reward_std_dev: 0.5,
    });
  });

  it('does not train on groups of equal rewards but counts their trajectories', () => {
    const flat = { trajectories: [0.1, 0.1, 0.1].map((reward) => ({ reward, sequences: [sequence(-1)] })) };
    const signal = { trajectories: [0, 1].map((reward) => ({ reward, sequences: [sequence(-1)] })) };
    const { datums, counts } = makeDatums([flat, signal], config);
    expect(datums.map(({ spans }) => spans[0]?.weight)).toEqual([1 / 5, 1 / 5]);
    expect(counts).toMatchObject({ num_groups_submitted: 2, num_groups_trainable: 1, num_trajectories: 5 });
    expect(counts.num_groups_without_signal).toBe(1);
    expect(counts.reward_std_dev).toBe(0.25);
  });

  it('keeps trajectories without advantage for the entropy bonus', () => {
    const flat = { trajectories: [1, 1].map((reward) => ({ reward, sequences: [sequence(-1)] })) };
    const { datums, counts } = makeDatums([flat], { ...config, entropy_coefficient: 0.01 });
    expect(datums.map(({ spans }) => spans[0]?.advantage)).toEqual([0, 0]);
    expect(counts).toMatchObject({ num_groups_trainable: 0, num_datums: 2, num_trainable_tokens: 2 });
  });

  it('normalises by the mean of |A| over trained tokens, after the balance, and leaves an empty batch unchanged', () => {
    const rewards = [0, 1, 5];
    const group = { trajectories: rewards.map((reward) => ({ reward, sequences: [sequence(-1, -1)] })) };
    const silent = { trajectories: [2, 2].map((reward) => ({ reward, sequences: [sequence(-1)] })) };
    const forced = { trajectories: [0, 9].map((reward) => ({ reward, sequences: [sequence(0)] })) };
    const normalised = { ...config, advantage_balance: 0.5, normalize_advantages: true };
    // -2, -1 and 3 become -1, -0.5 and 3, whose mean size is 1.5.
    for (const entropy_coefficient of [0, 0.1]) {
      const { datums } = makeDatums([silent, group, forced], { ...normalised, entropy_coefficient });
      const advantages = datums.flatMap(({ spans }) => spans.map(({ advantage }) => advantage));
      expect(advantages.filter((advantage) => advantage !== 0)).toEqual([-1 / 1.5, -0.5 / 1.5, 2]);
    }
    const { datums } = makeDatums([silent], { ...normalised, entropy_coefficient: 0.1 });
    expect(datums.flatMap(({ spans }) => spans.map(({ advantage }) => advantage))).toEqual([0, 0]);
  });

  it('leaves out sequences without a decision', () => {
    const forced = {
      trajectories: [
        { reward: 0, sequences: [sequence(0, 0)] },
        { reward: 1, sequences: [sequence(0), sequence(-1)] },
      ],
    };
    const { datums, counts } = makeDatums([forced], config);
    expect(datums).toHaveLength(1);
    expect(datums[0]?.spans[0]?.weight).toBe(1 / 2);
    expect(counts.num_trainable_tokens).toBe(1);
  });

  it('tells of each datum its trajectory in the batch, and of each span its choice', () => {
    const twice = {
      tokens: [1, 2, 3],
      spans: [1, 2].map((start) => ({ ...sequence(-1).spans[0], start, choice: start })),
    };
    const silent = { trajectories: [2, 2].map((reward) => ({ reward, sequences: [sequence(-1)] })) };
    const group = {
      trajectories: [
        { reward: 0, sequences: [sequence(0)] },
        { reward: 1, sequences: [twice as ReturnType<typeof sequence>, sequence(-1)] },
      ],
    };
    expect(makeDatums([silent, group], config).origins).toEqual([
      { trajectory: 3, choices: [1, 2] },
      { trajectory: 3, choices: [undefined] },
    ]);
  });

  it('makes an empty batch from no groups', () => {
    expect(makeDatums([], config)).toEqual({
      datums: [],
      origins: [],
      hasSignal: false,
      counts: {
        num_groups_submitted: 0,
        num_groups_trainable: 0,
        num_groups_without_signal: 0,
        num_trajectories: 0,
        num_credited_choices: 0,
        num_constrained_choices: 0,
        num_trainable_tokens: 0,
        num_datums: 0,
        train_tokens: 0,
        reward: 0,
        reward_std_dev: 0,
      },
    });
  });

  it('has weights that are equal for all trajectories and add up to at most 1', () => {
    fc.assert(
      fc.property(groups, fc.boolean(), (rewarded: RewardedGroup<null>[], entropy) => {
        const submitted = rewarded.flatMap((group) => group.trajectories).length;
        const { datums } = makeDatums(rewarded, { ...config, entropy_coefficient: entropy ? 0.1 : 0 });
        const byTokens = new Map(datums.map((datum) => [datum.tokens, datum]));
        let total = 0;
        for (const { sequences } of rewarded.flatMap((group) => group.trajectories)) {
          const spans = sequences.flatMap(({ tokens }) => byTokens.get(tokens)?.spans ?? []);
          const weight = spans.reduce((sum, span) => sum + span.weight * countDecisions(span), 0);
          if (spans.length > 0) expect(weight).toBeCloseTo(1 / submitted, 12);
          total += weight;
        }
        expect(total).toBeLessThanOrEqual(1 + 1e-12);
      }),
      { seed: 6, numRuns: 500 },
    );
  });
});
