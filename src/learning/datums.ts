import { meanOrNull, sumOf } from '../util/sums.ts';
import { choiceAdvantages, groupStandardDeviation, hasSignal } from './advantages.ts';
import { type Datum, LearningError, type Span } from './datum.ts';
import { hasTeacher, type ResolvedRlConfig } from './resolve-config.ts';

interface SpanOrigin {
  /** The choice's credit; absent or null: its trajectory's reward applies. */
  credit?: number | null;
  /** Number of the choice in its trajectory, which `Batch.origins` tells again. */
  choice?: number;
}

/** One history of a trajectory, tokenized. */
export interface SampledSequence<Constraint> {
  tokens: number[];
  spans: (Omit<Span<Constraint>, 'advantage' | 'weight'> & SpanOrigin)[];
}

export interface RewardedTrajectory<Constraint> {
  reward: number;
  /** One for each history, tokenized. */
  sequences: SampledSequence<Constraint>[];
}

/** Trajectories of the same scenario, compared with each other. */
export interface RewardedGroup<Constraint> {
  trajectories: RewardedTrajectory<Constraint>[];
}

/** Counts of a batch, under the names of `gradient_step` events. */
export interface BatchCounts {
  num_groups_submitted: number;
  /** Groups with at least one decision whose advantage is not 0, or that a teacher scores. */
  num_groups_trainable: number;
  /** The other groups: all returns are equal, or no token with an advantage was a decision. */
  num_groups_without_signal: number;
  /** All submitted trajectories, with or without a signal. */
  num_trajectories: number;
  /** Choices that have a credit. */
  num_credited_choices: number;
  /** Choices that were sampled under a constraint. Tokens that the constraint forces are not learned. */
  num_constrained_choices: number;
  /** Decisions in the datums (see `countDecisions`). */
  num_trainable_tokens: number;
  num_datums: number;
  /** Tokens of the datums, context included. */
  train_tokens: number;
  /** Mean reward of all trajectories; 0 when there are none. */
  reward: number;
  /** Population standard deviation of the rewards, averaged over the groups of two or more; 0 without such groups. */
  reward_std_dev: number;
}

interface DatumOrigin {
  trajectory: number;
  choices: (number | undefined)[];
}

export interface Batch<Constraint> {
  /** In the order of the groups, trajectories and histories. */
  datums: Datum<Constraint>[];
  /** Where each datum comes from: its trajectory's index in the batch, and the choice of each span. */
  origins: DatumOrigin[];
  /** Whether the returns differ in any group. */
  hasSignal: boolean;
  counts: BatchCounts;
}

export type DatumConfig = Pick<
  ResolvedRlConfig,
  | 'scale_rewards'
  | 'advantage_balance'
  | 'normalize_advantages'
  | 'entropy_coefficient'
  | 'kl_penalty_coef'
  | 'kl_penalty_reference_model'
>;

/**
 * Turns groups of rewarded trajectories into a batch for an engine. Computes advantages within each group
 * (`choiceAdvantages`), with `normalize_advantages` divides them by their mean size (`normalize`), and computes the
 * weights over all groups (`weigh`). It yields after each group and each trajectory, so that the caller can pause, and
 * returns the batch. `datums` is empty when nothing in the batch has a signal, and there is neither bonus nor teacher.
 *
 * @throws LearningError for an invalid reward (`choiceAdvantages`), and `span_out_of_bounds` or `span_logprobs_length`
 * when a span does not fit its sequence.
 */
export function* makeDatums<Constraint>(
  groups: readonly RewardedGroup<Constraint>[],
  config: DatumConfig,
): Generator<void, Batch<Constraint>> {
  const options = { scaleRewards: config.scale_rewards, advantageBalance: config.advantage_balance };
  const trajectories: CountedDatum<Constraint>[][] = [];
  const deviations: number[] = [];
  const rewards: number[] = [];
  let trainableGroups = 0;
  let credited = 0;
  let constrained = 0;
  let differ = false;
  const isTaught = hasTeacher(config);
  for (const group of groups) {
    const returns = group.trajectories.map(({ reward, sequences }) => ({
      reward,
      credits: sequences.flatMap(({ spans }) => spans.map(({ credit }) => credit ?? null)),
    }));
    const advantaged = withAdvantages(group, choiceAdvantages(returns, options));
    for (const trajectory of advantaged) trajectories.push(trajectory);
    if (advantaged.some(isTaught ? hasDecision : hasAdvantage)) trainableGroups++;
    credited += returns.flatMap(({ credits }) => credits).filter((credit) => credit !== null).length;
    for (const { sequences } of group.trajectories)
      for (const { spans } of sequences)
        constrained += spans.filter(({ constraint }) => constraint !== null).length;
    differ ||= hasSignal(returns);
    const own = returns.map(({ reward }) => reward);
    if (own.length > 1) deviations.push(groupStandardDeviation(own));
    for (const reward of own) rewards.push(reward);
    yield;
  }
  if (config.normalize_advantages) yield* normalize(trajectories);
  const datums: Datum<Constraint>[] = [];
  const origins: DatumOrigin[] = [];
  let decisions = 0;
  for (const [index, trajectory] of trajectories.entries()) {
    if (config.entropy_coefficient > 0 || isTaught || hasAdvantage(trajectory)) {
      decisions += weigh(trajectory, trajectories.length);
      for (const { datum, decisions: own, choices } of trajectory) {
        if (sumOf(own) === 0) continue;
        datums.push(datum);
        origins.push({ trajectory: index, choices });
      }
    }
    yield;
  }
  return {
    datums,
    origins,
    hasSignal: differ,
    counts: {
      num_groups_submitted: groups.length,
      num_groups_trainable: trainableGroups,
      num_groups_without_signal: groups.length - trainableGroups,
      num_trajectories: trajectories.length,
      num_credited_choices: credited,
      num_constrained_choices: constrained,
      num_trainable_tokens: decisions,
      num_datums: datums.length,
      train_tokens: sumOf(datums, ({ tokens }) => tokens.length),
      reward: mean(rewards),
      reward_std_dev: mean(deviations),
    },
  };
}

interface CountedDatum<Constraint> {
  datum: Datum<Constraint>;
  /** The number of decisions in each span. */
  decisions: number[];
  choices: DatumOrigin['choices'];
}

/** The sequences of each trajectory as datums whose weights are still 0. */
function withAdvantages<Constraint>(
  { trajectories }: RewardedGroup<Constraint>,
  advantages: readonly (readonly number[])[],
): CountedDatum<Constraint>[][] {
  return trajectories.map(({ sequences }, index) => {
    let choice = 0;
    return sequences.map(({ tokens, spans: sampled }) => {
      const spans = sampled.map(({ credit: _, choice: __, ...span }) => {
        checkSpan(span, tokens.length);
        return { ...span, advantage: advantages[index]?.[choice++] ?? 0, weight: 0 };
      });
      return {
        datum: { tokens, spans },
        decisions: spans.map(countDecisions),
        choices: sampled.map((span) => span.choice),
      };
    });
  });
}

function checkSpan({ start, length, logprobs }: Omit<Span, 'advantage' | 'weight'>, tokens: number): void {
  // The first token of a sequence has no prompt, so it cannot have been sampled.
  if (!Number.isInteger(start) || start < 1 || length < 0 || start + length > tokens)
    throw new LearningError(
      'span_out_of_bounds',
      `A span of ${length} tokens at index ${start} exceeds its sequence of ${tokens} tokens, or begins before index 1.`,
    );
  if (logprobs.length !== length)
    throw new LearningError(
      'span_logprobs_length',
      `A span of ${length} tokens has ${logprobs.length} log-probabilities. Pass one for each token, null if it is not known.`,
    );
}

/**
 * The number of decisions in a span: tokens whose sampled log-probability is not exactly 0. A token sampled with
 * probability 1, such as one that a grammar forces, has no gradient and does not count. A token with an unknown
 * log-probability counts as a decision.
 */
export function countDecisions(span: Pick<Span, 'logprobs'>): number {
  let count = 0;
  // A plain loop, because a batch may have millions of tokens.
  for (const logprob of span.logprobs) if (logprob !== 0) count++;
  return count;
}

/** The spans of a trajectory that have decisions, each with their number. */
function decidingSpans(trajectory: readonly CountedDatum<unknown>[]) {
  return trajectory
    .flatMap(({ datum, decisions }) => datum.spans.map((span, at) => ({ span, count: decisions[at] ?? 0 })))
    .filter(({ count }) => count > 0);
}

const hasDecision = (trajectory: readonly CountedDatum<unknown>[]): boolean =>
  decidingSpans(trajectory).length > 0;

/** Whether any decision has an advantage other than 0. */
const hasAdvantage = (trajectory: readonly CountedDatum<unknown>[]): boolean =>
  decidingSpans(trajectory).some(({ span }) => span.advantage !== 0);

/**
 * Sets the weights of a trajectory, one of `trajectories` in the batch, and returns its number of decisions. Every
 * trajectory has the same weight whatever its number of tokens: each decision weighs
 * 1 / (trajectories * decisions of its trajectory). So the weights of a batch add up to at most 1.
 *
 * A trajectory in which no decision has an advantage has no datums but still counts in `trajectories`, so that the step
 * is smaller when fewer groups have a signal. With an entropy coefficient above 0 it keeps its datums, which contribute
 * only to the entropy bonus. With a teacher it keeps them too, because the teacher gives them an advantage later. A
 * trajectory without decisions never has datums. If some choices of a trajectory have advantage 0, they keep their weight,
 * so that they do not change the weight of the others.
 */
function weigh(trajectory: readonly CountedDatum<unknown>[], trajectories: number): number {
  const total = sumOf(trajectory.flatMap(({ decisions }) => decisions));
  for (const { datum } of trajectory)
    for (const span of datum.spans) span.weight = 1 / (trajectories * total);
  return total;
}

/**
 * Divides the advantages of a batch, after balancing, by the mean of |A| over the trajectories whose advantage is not 0.
 * It equals the mean over their trainable tokens of |A| * w, where the weight w, scaled to mean 1, makes all
 * trajectories weigh the same. The |A| of a trajectory with credits is the mean over its decisions.
 */
function* normalize(trajectories: readonly CountedDatum<unknown>[][]): Generator<void, void> {
  const sizes: number[] = [];
  for (const trajectory of trajectories) {
    const size = meanAdvantage(trajectory);
    if (size !== 0) sizes.push(size);
    yield;
  }
  if (sizes.length === 0) return;
  const scale = mean(sizes);
  for (const trajectory of trajectories) {
    for (const { datum } of trajectory) for (const span of datum.spans) span.advantage /= scale;
    yield;
  }
}

/** Mean of |A| over the decisions of a trajectory; 0 without decisions. */
function meanAdvantage(trajectory: readonly CountedDatum<unknown>[]): number {
  const spans = decidingSpans(trajectory).map(({ span, count }) => ({
    size: Math.abs(span.advantage),
    count,
  }));
  const [first] = spans;
  if (!first) return 0;
  // Exact when all advantages are equal, as without credits.
  if (spans.every(({ size }) => size === first.size)) return first.size;
  return sumOf(spans.map(({ size, count }) => size * count)) / sumOf(spans.map(({ count }) => count));
}

const mean = (values: readonly number[]): number => meanOrNull(values) ?? 0;
