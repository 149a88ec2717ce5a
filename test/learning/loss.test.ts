import { describe, expect, it } from 'vitest';
import {
  datumLoss,
  klPenaltyShifts,
  type LossConfig,
  type LossDecision,
  OffPolicyDiagnostics,
  type PolicyLossConfig,
} from '../../src/learning/index.ts';

const off = {
  maskRatio: false,
  maxRatio: null,
  tau: 0,
  precalculateLogprobs: false,
  entropyCoefficient: 0,
  importanceLevel: 'token',
  truncation: null,
  klPenalty: null,
} as const;
const cispo: PolicyLossConfig = { type: 'cispo', epsilon: 1, epsilonHigh: 4, ...off };
const ppo: PolicyLossConfig = { type: 'ppo', epsilon: 0.2, epsilonHigh: 0.2, ...off };

/** The loss of a datum of one decision. */
const tokenLoss = ({ config, ...decision }: LossDecision & { config: LossConfig }) => {
  const { losses, gradient, clipped } = datumLoss([decision], config);
  return { loss: losses[0] as number, gradient: gradient[0] as number, clipped: clipped[0] as boolean };
};

/** The loss of a token whose ratio is `ratio`, at log-probability -1. */
const atRatio = (ratio: number, advantage: number, config: PolicyLossConfig) =>
  tokenLoss({ logprob: -1, sampledLogprob: -1 - Math.log(ratio), advantage, config });

/** Two decisions with the ratios 1.5 and 1. */
const two = (advantage: number) => [
  { logprob: -1, sampledLogprob: -1 - Math.log(1.5), advantage },
  { logprob: -2, sampledLogprob: -2, advantage },
];

// reference.test.ts compares the loss and its gradient with the formulas.
describe('datumLoss', () => {
  it('is the negative log-probability for cross-entropy', () => {
    const config = { type: 'cross_entropy' } as const;
    expect(tokenLoss({ logprob: -1.5, sampledLogprob: -9, advantage: 7, config })).toEqual({
      loss: 1.5,
      gradient: -1,
      clipped: false,
    });
  });

  it('is plain policy gradient for CISPO if the policy has not moved or the sampled log-probability is missing', () => {
    const onPolicy = tokenLoss({ logprob: -0.5, sampledLogprob: -0.5, advantage: 2, config: cispo });
    expect(onPolicy).toEqual({ loss: 1, gradient: -2, clipped: false });
    expect(tokenLoss({ logprob: -0.5, sampledLogprob: null, advantage: 2, config: cispo })).toEqual(onPolicy);
  });

  it.each([
    // ratio, advantage, expected gradient: clip to [0, 5] times the advantage, whatever its sign.
    [4.9, 1, -4.9],
    [5.1, 1, -5],
    [5.1, -1, 5],
    [0.01, 1, -0.01],
  ])('clips the ratio %d with advantage %d and keeps a gradient in CISPO', (ratio, advantage, gradient) => {
    expect(atRatio(ratio, advantage, cispo).gradient).toBeCloseTo(gradient, 12);
    expect(atRatio(ratio, advantage, cispo).clipped).toBe(ratio > 5);
  });

  it.each([
    // ratio, advantage, expected loss, expected gradient: the pessimistic clip at 0.8 and 1.2.
    [1.19, 1, -1.19, -1.19],
    [1.21, 1, -1.2, 0],
    [0.79, 1, -0.79, -0.79],
    [0.81, -1, 0.81, 0.81],
    [0.79, -1, 0.8, 0],
    [1.21, -1, 1.21, 1.21],
  ])('clips the ratio %d with advantage %d pessimistically in PPO', (ratio, advantage, loss, gradient) => {
    const got = atRatio(ratio, advantage, ppo);
    expect(got.loss).toBeCloseTo(loss, 12);
    expect(got.gradient).toBeCloseTo(gradient, 12);
    expect(got.clipped).toBe(gradient === 0);
  });

  it('keeps the gradient exactly at the clip bound', () => {
    const border = tokenLoss({
      logprob: -1,
      sampledLogprob: -1,
      advantage: 1,
      config: { ...ppo, epsilonHigh: 0 },
    });
    expect(border).toEqual({ loss: -1, gradient: -1, clipped: false });
  });

  it('caps the ratio of positive and of negative advantages equally', () => {
    const config = { ...cispo, maxRatio: 2 };
    expect(atRatio(3, 1, config).gradient).toBeCloseTo(-2, 12);
    expect(atRatio(3, -1, config).gradient).toBeCloseTo(2, 12);
    expect(atRatio(3, -1, { ...ppo, maxRatio: 2 })).toEqual({ loss: 2, gradient: 0, clipped: true });
  });

  it('masks a ratio outside the open interval instead of clipping it', () => {
    const config = { ...cispo, maskRatio: true };
    expect(atRatio(5.1, 1, config).gradient).toBeCloseTo(0, 12);
    expect(atRatio(4.9, 1, config).gradient).toBeCloseTo(-4.9, 12);
    expect(atRatio(1.3, 1, { ...ppo, maskRatio: true }).gradient).toBeCloseTo(0, 12);
  });

  it('raises a masked ratio to the lower clip if CISPO has an epsilon below 1, as the public trainer does', () => {
    expect(atRatio(5.1, 1, { ...cispo, epsilon: 0.2, maskRatio: true }).gradient).toBeCloseTo(-0.8, 12);
  });

  it('shifts the advantage by tau against the drift', () => {
    // d = ln 2, A = 1 - 0.5 * ln 2, ratio 2.
    expect(atRatio(2, 1, { ...cispo, tau: 0.5 }).gradient).toBeCloseTo(-2 * (1 - 0.5 * Math.log(2)), 12);
  });

  it('stays finite if a token became many orders of magnitude likelier', () => {
    const got = tokenLoss({ logprob: 0, sampledLogprob: -1e6, advantage: 0, config: ppo });
    expect(Math.abs(got.loss)).toBe(0);
    expect(Math.abs(got.gradient)).toBe(0);
    const negative = tokenLoss({ logprob: 0, sampledLogprob: -1e6, advantage: -1, config: ppo });
    expect(Number.isFinite(Math.fround(negative.loss))).toBe(true);
  });

  it('gives a clipped token no gradient of its own, only that of its sequence in PPO', () => {
    const own = datumLoss(two(1), ppo);
    expect(Array.from(own.gradient)).toEqual([0, -1]);
    expect(own.clipped).toEqual([true, false]);
    // exp of the mean of ln 1.5 and 0 is above the clip for both.
    const sequence = datumLoss(two(1), { ...ppo, importanceLevel: 'sequence' });
    expect([Array.from(sequence.gradient), sequence.clipped]).toEqual([
      [0, 0],
      [true, true],
    ]);
    const wide = datumLoss(two(1), { ...ppo, epsilonHigh: 1, importanceLevel: 'sequence' });
    for (const slope of wide.gradient) expect(slope).toBeCloseTo(-Math.sqrt(1.5), 12);
  });

  it('truncates a token’s weight by its ratio, or before the first update by the ratio of trainer to sampler', () => {
    const truncated = { ...cispo, truncation: 1.2 };
    expect(atRatio(2, 1, truncated)).toMatchObject({ gradient: -2 * 1.2, clipped: true });
    expect(atRatio(0.5, 1, truncated).gradient).toBeCloseTo(-0.5 * 0.5, 12);
    const before = { ...truncated, precalculateLogprobs: true };
    expect(atRatio(2, 1, before).gradient).toBeCloseTo(-1.2, 12);
    expect(atRatio(0.5, 1, before).gradient).toBeCloseTo(-0.5, 12);
  });
});

describe('klPenaltyShifts', () => {
  const terms = [
    { current: -1, sampled: -1.5, reference: -2 },
    { current: -1, sampled: null, reference: -1 },
  ];

  it('lowers the advantage of the tokens furthest from the reference and raises that of the others', () => {
    const { mean, shifts } = klPenaltyShifts(terms, {
      coefficient: 0.5,
      source: 'current_learner',
      isCentred: true,
    });
    expect([mean, ...shifts]).toEqual([0.5, -0.25, 0.25]);
  });

  it('compares sampled log-probabilities, or if unknown those of the current weights', () => {
    const { mean, shifts } = klPenaltyShifts(terms, { coefficient: 1, source: 'sample', isCentred: true });
    expect([mean, ...shifts]).toEqual([0.25, -0.25, 0.25]);
  });
});

describe('OffPolicyDiagnostics', () => {
  it('is all zeros without tokens', () => {
    expect(new OffPolicyDiagnostics().summary()).toEqual({
      tokens: 0,
      clippedFraction: 0,
      kl: 0,
      maxLogprobDifference: 0,
    });
  });

  it('estimates the divergence of sampler and trainer without bias', () => {
    const sampler = [0.5, 0.3, 0.2];
    const trainer = [0.2, 0.3, 0.5];
    const exact = sampler.reduce((sum, p, i) => sum + p * Math.log(p / (trainer[i] ?? 0)), 0);
    const diagnostics = new OffPolicyDiagnostics();
    // Ten tokens in exactly the proportions of the sampler give its expectation.
    for (const index of [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]) {
      diagnostics.add(Math.log(trainer[index] ?? 0), Math.log(sampler[index] ?? 0), index === 2);
    }
    const summary = diagnostics.summary();
    expect(summary.kl).toBeCloseTo(exact, 12);
    expect(summary.clippedFraction).toBe(0.2);
    expect(summary.maxLogprobDifference).toBeCloseTo(Math.log(2.5), 12);
  });

  it('leaves out tokens without a sampled log-probability', () => {
    const diagnostics = new OffPolicyDiagnostics();
    diagnostics.add(-3, null, false);
    diagnostics.add(-1, -1, false);
    expect(diagnostics.summary()).toEqual({
      tokens: 2,
      clippedFraction: 0,
      kl: 0,
      maxLogprobDifference: 0,
    });
  });
});
