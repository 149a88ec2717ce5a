import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import {
  type Distribution,
  distributionOf,
  entropyOf,
  gatherLogits,
  type LogitRows,
} from '../../../../src/engines/embedded/sampling/distribution.ts';
import {
  addLogitsGradient,
  BatchLoss,
  logprobOf,
} from '../../../../src/engines/embedded/trainer/batch-loss.ts';
import {
  klPenaltyShifts,
  type LossConfig,
  plainSampling,
  resolveRlConfig,
} from '../../../../src/learning/index.ts';
import { referenceObjective } from '../../../learning/reference-objective.ts';
import { logitRows } from '../logit-rows.ts';

const vocabularySize = 12;
const rows = 7;
const random = new Random(5);
const logits = Float32Array.from({ length: rows * vocabularySize }, () => 2 * random.normal());
const reference = Array.from({ length: rows }, () => -0.5 - 2 * random.uniform());

/** One decision of the batch: where it stands, what it was chosen from and how. */
interface Place {
  row: number;
  token: number;
  legal: number[];
  temperature: number;
  /** d of its sampled log-probability; null: there is none. */
  logRatio: number | null;
  /** Repetition penalty on the legal tokens below 6. */
  penalty?: number;
}

/** Two trajectories, the first of two histories, and a row of padding. */
const all = Array.from({ length: vocabularySize }, (_, id) => id);
const places: Place[][] = [
  [
    { row: 0, token: 3, legal: [0, 3, 7], temperature: 1, logRatio: 0.3 },
    { row: 1, token: 1, legal: all, temperature: 0.5, logRatio: -0.9 },
    { row: 2, token: 8, legal: all, temperature: 1, logRatio: 2, penalty: 1.5 },
  ],
  [{ row: 4, token: 9, legal: [2, 9], temperature: 2, logRatio: null }],
  [
    { row: 5, token: 4, legal: [4, 5, 6, 11], temperature: 0.8, logRatio: 0.15, penalty: 1.3 },
    { row: 6, token: 0, legal: all, temperature: 1, logRatio: -0.1 },
  ],
];
const paddingRow = 3;

/** log-probability and entropy at `values`, in float64 from the definitions. */
function softmaxOf({ row, token, legal, temperature, penalty = 1 }: Place, values: ArrayLike<number>) {
  const adjusted = legal.map((id) => {
    const z = values[row * vocabularySize + id] as number;
    return (id >= 6 ? z : z > 0 ? z / penalty : z * penalty) / temperature;
  });
  const total = Math.log(adjusted.reduce((sum, z) => sum + Math.exp(z), 0));
  const logprobs = adjusted.map((z) => z - total);
  return {
    logprob: logprobs[legal.indexOf(token)] as number,
    entropy: -logprobs.reduce((sum, l) => sum + Math.exp(l) * l, 0),
  };
}

function distribution(
  { legal, temperature, token, penalty }: Place,
  z: Float32Array,
  row: number,
): Distribution {
  const offset = row * vocabularySize;
  const sampling = { ...plainSampling, temperature };
  const support = Int32Array.from(legal);
  if (penalty === undefined) return distributionOf(gatherLogits(z, offset, support), sampling, token);
  const slopes = Float64Array.from(legal, (id) => {
    const positive = (z[offset + id] as number) > 0;
    return id >= 6 ? 1 : positive ? 1 / penalty : penalty;
  });
  const values = slopes.map((slope, index) => slope * (z[offset + (legal[index] as number)] as number));
  return distributionOf({ support, values, slopes }, sampling, token);
}

/** The job's groups for the reference, at the log-probabilities and entropies of `values`. */
function groupsAt(values: ArrayLike<number>) {
  const histories = places.map((history) =>
    history.map((place) => {
      const { logprob, entropy } = softmaxOf(place, values);
      const sampled = place.logRatio === null ? null : softmaxOf(place, logits).logprob - place.logRatio;
      return { current: logprob, entropy, sampled, reference: reference[place.row] as number };
    }),
  );
  return [
    [
      { reward: 1, histories: histories.slice(0, 2) },
      { reward: 0.2, histories: histories.slice(2) },
    ],
  ];
}

/** Loss and slope of the batch by src; advantages and weights are those of the groups above, unscaled. */
function ours(loss: LossConfig) {
  const terms = groupsAt(logits).flatMap((group) => group.flatMap((t) => t.histories.flat()));
  const penalty =
    loss.type !== 'cross_entropy' && loss.klPenalty
      ? loss.klPenalty.isCentred
        ? klPenaltyShifts(terms, loss.klPenalty)
        : { reference: terms.map((term) => term.reference) }
      : null;
  const batch = new BatchLoss(loss, penalty);
  const counts = [4, 4, 2];
  const decisions = places.map((history, index) =>
    history.map((place) => ({
      row: place.row,
      decision: {
        position: 0,
        token: place.token,
        logprob: place.logRatio === null ? null : softmaxOf(place, logits).logprob - place.logRatio,
        span: {
          ...{ start: 1, length: 1, logprobs: [null], constraint: null },
          sampling: { ...plainSampling, temperature: place.temperature },
          advantage: index < 2 ? 0.4 : -0.4,
          weight: 1 / (2 * (counts[index] as number)),
        },
        distribution: ({ logits }: LogitRows, row: number) => distribution(place, logits, row),
        isSoftmax: false,
        softmaxSupport: () => null,
      },
    })),
  );
  const values = logitRows(logits, vocabularySize);
  const placed = decisions
    .flat()
    .map(({ decision, row }) => ({ decision, row, distribution: decision.distribution(values, row) }));
  const slopes = batch.add(
    decisions.map((history) => history.map(({ decision }) => decision)),
    {
      logprobs: Float64Array.from(placed, ({ decision, distribution }) =>
        logprobOf(distribution, decision.token),
      ),
      entropies: Float64Array.from(placed, ({ distribution }) => entropyOf(distribution)),
    },
  );
  const slope = new Float32Array(logits.length);
  for (const [index, { decision, row, distribution }] of placed.entries()) {
    const own = {
      slope: slopes.logprobs[index] as number,
      entropySlope: slopes.entropies[index] as number,
    };
    addLogitsGradient(decision, distribution, own, slope, row * vocabularySize);
  }
  return { slope, metrics: batch.metrics() };
}

const plain = { scale_rewards: false };
const configs: Record<string, object> = {
  CISPO: {},
  'CISPO with its clip at work': { epsilon: 0.2, epsilon_high: 0.2 },
  PPO: { ppo: true },
  'PPO, wide': { loss_fn: 'ppo', epsilon: 0.9, epsilon_high: 9 },
  'a mask': { mask_prob_ratio: true, epsilon_high: 1 },
  'a cap': {
    ppo: true,
    epsilon: 0.9,
    epsilon_high: 9,
    max_negative_advantage_importance_sampling_weight: 1.1,
  },
  tau: { vendor_k2_tau: 0.3 },
  'precalculated log-probabilities': { precalculate_logprobs: true, truncated_importance_sampling: 1.1 },
  'PPO by sequence': { ppo: true, epsilon_high: 3, epsilon: 0.9, importance_sampling_level: 'sequence' },
  'PPO by average': { ppo: true, epsilon_high: 3, epsilon: 0.9, importance_sampling_level: 'average' },
  'PPO by geometric average': {
    ...{ ppo: true, epsilon_high: 3, epsilon: 0.9, importance_sampling_level: 'geometric_average' },
    truncated_importance_sampling: 1.2,
  },
  'CISPO by sequence': { importance_sampling_level: 'sequence' },
  'a KL penalty': { kl_penalty_coef: 0.7 },
  'a KL penalty on what was sampled, in PPO': {
    kl_penalty_coef: 0.7,
    kl_penalty_source: 'sample',
    ppo: true,
    epsilon_high: 9,
  },
  'a teacher': { kl_penalty_coef: 0.7, kl_penalty_reference_model: 'teacher' },
  'a teacher beside what was sampled, in PPO': {
    kl_penalty_coef: 0.7,
    kl_penalty_reference_model: 'teacher',
    kl_penalty_source: 'sample',
    ppo: true,
    epsilon_high: 9,
  },
  'an entropy bonus': { entropy_coefficient: 0.3 },
};

describe('the loss of a batch', () => {
  it.each(Object.entries(configs))(
    'has the loss and the slope at the logits of the formulas: %s',
    (_, given) => {
      const json = { ...plain, ...given };
      const { loss } = resolveRlConfig(rlConfigSchema.parse(json), { learningRate: 1 });
      const { slope, metrics } = ours(loss);
      const objective = referenceObjective(groupsAt(logits), json);
      const bonus = 'entropy_coefficient' in given ? Number(given.entropy_coefficient) : 0;
      // The objective freezes the entropies too; the bonus moves with the logits.
      const at = (values: ArrayLike<number>) => {
        const now = groupsAt(values).flatMap((group) => group.flatMap((t) => t.histories.flat()));
        const then = objective.tokens;
        const weights = [4, 4, 4, 4, 2, 2].map((count) => 1 / (2 * count));
        return (
          objective.at(now.map(({ current }) => current)) -
          now.reduce(
            (sum, { entropy }, i) =>
              sum + bonus * (weights[i] as number) * (entropy - (then[i]?.entropy ?? 0)),
            0,
          )
        );
      };
      expect(metrics.loss).toBeCloseTo(at(logits), 10);
      const values = Array.from(logits);
      const differences = values.map((value, index) => {
        const moved = (by: number) => at(values.with(index, value + by));
        return (moved(1e-5) - moved(-1e-5)) / 2e-5;
      });
      const furthest = Math.max(
        ...differences.map((expected, index) => Math.abs(expected - (slope[index] as number))),
      );
      // The slope is in float32.
      expect(furthest).toBeLessThan(2e-7);
      expect(Math.max(...differences.map(Math.abs))).toBeGreaterThan(1e-3);
    },
  );

  it('has the gradient of cross-entropy, weighted', () => {
    const { slope, metrics } = ours({ type: 'cross_entropy' });
    const weights = [4, 4, 4, 4, 2, 2].map((count) => 1 / (2 * count));
    const at = (values: ArrayLike<number>) =>
      places
        .flat()
        .reduce((sum, place, i) => sum - (weights[i] as number) * softmaxOf(place, values).logprob, 0);
    expect(metrics.loss).toBeCloseTo(at(logits), 10);
    const values = Array.from(logits);
    values.forEach((value, index) => {
      const expected = (at(values.with(index, value + 1e-5)) - at(values.with(index, value - 1e-5))) / 2e-5;
      expect(Math.abs(expected - (slope[index] as number))).toBeLessThan(2e-7);
    });
  });

  it('has no gradient at illegal tokens and padding', () => {
    const { slope } = ours({ type: 'cross_entropy' });
    for (const id of [1, 2, 4, 5, 6, 8, 9, 10, 11]) expect(slope[id]).toBe(0);
    const padding = slope.slice(paddingRow * vocabularySize, (paddingRow + 1) * vocabularySize);
    expect(padding.every((value) => value === 0)).toBe(true);
  });
});
