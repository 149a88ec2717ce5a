import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../src/contract/index.ts';
import { datumLoss, klPenaltyShifts, plainSampling, resolveRlConfig } from '../../src/learning/index.ts';
import { testScale } from '../support/size.ts';
import {
  type ReferenceConfig,
  type ReferenceTrajectory,
  referenceObjective,
  referenceSlopes,
} from './reference-objective.ts';
import { makeDatums } from './support.ts';

/** The result of src for a job: its loss, and the derivative by each trained token's log-probability. */
function ours(groups: ReferenceTrajectory[][], json: ReferenceConfig) {
  const { config, loss } = resolveRlConfig(rlConfigSchema.parse(json), { learningRate: 1 });
  const sequenceOf = (tokens: ReferenceTrajectory['histories'][number]) => ({
    tokens: [0, ...tokens.map((_, index) => index)],
    spans: [
      {
        ...{ start: 1, length: tokens.length, sampling: plainSampling, constraint: tokens },
        logprobs: tokens.map(({ sampled }) => sampled),
      },
    ],
  });
  const rewarded = groups.map((group) => ({
    trajectories: group.map(({ reward, histories }) => ({ reward, sequences: histories.map(sequenceOf) })),
  }));
  // The constraint, which nothing here reads, carries the tokens through.
  const decided = makeDatums(rewarded, config).datums.map(({ spans }) =>
    spans.flatMap((span) =>
      (span.constraint ?? []).filter(({ sampled }) => sampled !== 0).map((token) => ({ token, span })),
    ),
  );
  const penalty = loss.klPenalty
    ? klPenaltyShifts(
        decided
          .flat()
          .map(({ token: { current, sampled, reference = 0 } }) => ({ current, sampled, reference })),
        loss.klPenalty,
      )
    : null;
  let at = 0;
  let total = 0;
  const slopes = decided.flatMap((decisions) => {
    const { losses, gradient } = datumLoss(
      decisions.map(({ token, span }) => ({
        logprob: token.current,
        sampledLogprob: token.sampled,
        advantage: span.advantage + (penalty?.shifts[at++] ?? 0),
      })),
      loss,
    );
    return decisions.map(({ span: { weight } }, index) => {
      total += weight * (losses[index] as number);
      return weight * (gradient[index] as number);
    });
  });
  return { total, slopes, tokens: decided.flat().map(({ token }) => token) };
}

function compare(groups: ReferenceTrajectory[][], json: ReferenceConfig): void {
  const objective = referenceObjective(groups, json);
  const got = ours(groups, json);
  expect(got.tokens).toEqual(objective.tokens);
  const expected = objective.at(objective.tokens.map(({ current }) => current));
  const wrong = referenceSlopes(objective).filter(({ below, above }, index) => {
    const slope = got.slopes[index] as number;
    const tolerance = 1e-7 * (1 + Math.abs(slope));
    return slope < Math.min(below, above) - tolerance || slope > Math.max(below, above) + tolerance;
  });
  expect({ loss: Math.abs(got.total - expected) < 1e-10 * (1 + Math.abs(expected)), wrong }).toEqual({
    loss: true,
    wrong: [],
  });
}

/** Log-ratios whose exponentials equal the bounds below exactly in float64. */
const [lower, upper, capped] = [-0.5, 0.25, 0.375];
const epsilon = 1 - Math.exp(lower);
const epsilonHigh = Math.exp(upper) - 1;
const cap = Math.exp(capped);

const eighths = (least: number, most: number) =>
  fc.integer({ min: 8 * least, max: 8 * most }).map((value) => value / 8);
const current = fc.oneof(eighths(-6, -1), fc.double({ min: -8, max: -0.01, noNaN: true }));
const logRatio = fc.oneof(
  fc.constantFrom(null, 0, lower, upper, capped),
  fc.double({ min: -2.5, max: 2.5, noNaN: true }),
);
const token = fc
  .record({ current, logRatio, reference: current, certain: fc.integer({ min: 0, max: 9 }) })
  .map(({ current: l, logRatio: d, reference, certain }) => ({
    current: l,
    reference,
    sampled: certain === 0 ? 0 : d === null ? null : l - d,
  }));
const trajectory = fc.record({
  reward: fc.constantFrom(0, 0.1, 0.25, 1, -3),
  histories: fc.array(fc.array(token, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
});
const groups = fc.array(fc.array(trajectory, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 });

const isZero = ({
  epsilon: e,
  epsilon_high: eHigh,
}: {
  epsilon: number | null;
  epsilon_high: number | null;
}) => e === 0 || eHigh === 0;

const config = fc
  .record({
    advantage_balance: fc.constantFrom(null, 0, 0.3, -0.6, 1, -1),
    scale_rewards: fc.constantFrom(null, true, false),
    normalize_advantages: fc.constantFrom(null, true, false),
    variant: fc.constantFrom(
      { ppo: true },
      { loss_fn: 'ppo' },
      { loss_fn: 'cispo', ppo: false },
      { ppo: null },
    ),
    epsilon: fc.constantFrom(null, 0, 0.3, epsilon, 1),
    epsilon_high: fc.constantFrom(null, 0, 0.2, epsilonHigh, 4),
    mask_prob_ratio: fc.constantFrom(null, true, false),
    max_negative_advantage_importance_sampling_weight: fc.constantFrom(null, 0.7, 1, cap, 3),
    vendor_k2_tau: fc.constantFrom(null, 0, 0.05, 0.5),
    precalculate_logprobs: fc.constantFrom(null, false, false, true),
    importance_sampling_level: fc.constantFrom(null, 'token', 'sequence', 'average', 'geometric_average'),
    truncated_importance_sampling: fc.constantFrom(null, 0.5, 1, cap, 2),
    kl_penalty_coef: fc.constantFrom(0, 0.1, 2),
    kl_penalty_source: fc.constantFrom(null, 'current_learner', 'sample'),
    kl_penalty_reference_model: fc.constantFrom(null, null, 'teacher'),
  })
  .map(({ variant, ...rest }) => ({ ...rest, ...variant }))
  // With a cap exactly at the bound of the clip, the ratio of 1 has a slope on neither side.
  .filter((config) => config.max_negative_advantage_importance_sampling_weight !== 1 || !isZero(config));

describe('the mathematics of a job', () => {
  it('matches the formulas: the loss, and its gradient by differences of the frozen objective', () => {
    fc.assert(fc.property(groups, config, compare), { seed: 11, numRuns: 500 * testScale });
  });

  it.each(['token', 'sequence', 'average', 'geometric_average'])(
    'matches the formulas if every ratio is at a bound: %s',
    (level) => {
      const histories = (d: number) => [
        [-1, -2, -3].map((l) => ({ current: l, sampled: l - d, reference: -2 })),
      ];
      for (const d of [lower, upper, capped, 0])
        for (const variant of [{ ppo: true }, { ppo: false }])
          for (const mask of [true, false])
            for (const truncated of [null, cap])
              compare(
                [
                  [
                    { reward: 1, histories: histories(d) },
                    { reward: 0, histories: histories(d) },
                  ],
                ],
                {
                  ...variant,
                  ...{ epsilon, epsilon_high: epsilonHigh, mask_prob_ratio: mask },
                  max_negative_advantage_importance_sampling_weight: cap,
                  truncated_importance_sampling: truncated,
                  importance_sampling_level: level,
                },
              );
    },
  );
});
