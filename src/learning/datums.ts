import {
  type AdvantageOptions,
  advantageScale,
  choiceAdvantages,
  groupStandardDeviation,
} from './advantages.ts';
import type { Datum } from './datum.ts';
import type { ResolvedRlConfig } from './resolve-config.ts';
import {
  type AdvantagedSequence,
  countDecisions,
  hasAdvantage,
  type SampledSequence,
  weighTrajectory,
} from './weights.ts';

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
  /** Groups with at least one decision whose advantage is not 0. */
  num_groups_trainable: number;
  /** The other groups: all returns are equal, or no token with an advantage was a decision. */
  num_groups_without_signal: number;
  /** All submitted trajectories, with or without a signal. */
  num_trajectories: number;
  /** Choices that have a credit. */
  num_credited_choices: number;
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

export interface Batch<Constraint> {
  /** In the order of the groups, trajectories and histories. */
  datums: Datum<Constraint>[];
  counts: BatchCounts;
}

export type DatumConfig = Pick<
  ResolvedRlConfig,
  'scale_rewards' | 'advantage_balance' | 'normalize_advantages' | 'entropy_coefficient'
>;

/**
 * Turns groups of rewarded trajectories into a batch for an engine. Computes advantages within each group
 * (`choiceAdvantages`), with `normalize_advantages` divides them by the batch's `advantageScale`, and computes the
 * weights over all groups (`weighTrajectory`). It yields after each group and each trajectory, so that the caller can
 * pause, and returns the batch. `datums` is empty when nothing in the batch has a signal.
 *
 * @throws LearningError for an invalid reward (`choiceAdvantages`) or span (`weighTrajectory`).
 */
export function* makingDatums<Constraint>(
  groups: readonly RewardedGroup<Constraint>[],
  config: DatumConfig,
): Generator<void, Batch<Constraint>> {
  const options = { scaleRewards: config.scale_rewards, advantageBalance: config.advantage_balance };
  const advantaged: AdvantagedSequence<Constraint>[][] = [];
  const deviations: number[] = [];
  const rewards: number[] = [];
  let trainableGroups = 0;
  let credited = 0;
  for (const group of groups) {
    const trajectories = withAdvantages(group, options);
    for (const sequences of trajectories) advantaged.push(sequences);
    if (trajectories.some(hasAdvantage)) trainableGroups++;
    credited += countCredits(group);
    const own = group.trajectories.map(({ reward }) => reward);
    if (own.length > 1) deviations.push(groupStandardDeviation(own));
    for (const reward of own) rewards.push(reward);
    yield;
  }
  if (config.normalize_advantages) yield* normalize(advantaged);
  const datums: Datum<Constraint>[] = [];
  let decisions = 0;
  for (const sequences of advantaged) {
    const weighed = weighTrajectory(sequences, {
      trajectories: advantaged.length,
      entropyCoefficient: config.entropy_coefficient,
    });
    decisions += weighed.decisions;
    for (const datum of weighed.datums) datums.push(datum);
    yield;
  }
  return {
    datums,
    counts: {
      num_groups_submitted: groups.length,
      num_groups_trainable: trainableGroups,
      num_groups_without_signal: groups.length - trainableGroups,
      num_trajectories: advantaged.length,
      num_credited_choices: credited,
      num_trainable_tokens: decisions,
      num_datums: datums.length,
      train_tokens: datums.reduce((sum, { tokens }) => sum + tokens.length, 0),
      reward: mean(rewards),
      reward_std_dev: mean(deviations),
    },
  };
}

/** Divides the advantages of a batch by their scale. */
function* normalize(advantaged: readonly AdvantagedSequence<unknown>[][]): Generator<void, void> {
  const sizes: number[] = [];
  for (const sequences of advantaged) {
    const size = meanAdvantage(sequences);
    if (size !== null) sizes.push(size);
    yield;
  }
  const scale = advantageScale(sizes);
  for (const sequences of advantaged) {
    for (const { spans } of sequences) for (const span of spans) span.advantage /= scale;
    yield;
  }
}

function countCredits({ trajectories }: RewardedGroup<unknown>): number {
  return trajectories
    .flatMap(({ sequences }) => sequences.flatMap(({ spans }) => spans))
    .filter(({ credit }) => credit != null).length;
}

/** The sequences of each trajectory, each span with its choice's advantage. */
function withAdvantages<Constraint>(
  { trajectories }: RewardedGroup<Constraint>,
  options: AdvantageOptions,
): AdvantagedSequence<Constraint>[][] {
  const credited = trajectories.map(({ reward, sequences }) => ({
    reward,
    credits: sequences.flatMap(({ spans }) => spans.map(({ credit }) => credit ?? null)),
  }));
  const advantages = choiceAdvantages(credited, options);
  return trajectories.map(({ sequences }, index) => {
    let choice = 0;
    return sequences.map(({ tokens, spans }) => ({
      tokens,
      spans: spans.map(({ credit: _, ...span }) => ({
        ...span,
        advantage: advantages[index]?.[choice++] ?? 0,
      })),
    }));
  });
}

/** Mean of |A| over the decisions of a trajectory; null without decisions. */
function meanAdvantage(sequences: readonly AdvantagedSequence<unknown>[]): number | null {
  const deciding = sequences
    .flatMap(({ spans }) => spans)
    .map((span) => ({ size: Math.abs(span.advantage), decisions: countDecisions(span) }))
    .filter(({ decisions }) => decisions > 0);
  const [first] = deciding;
  if (!first) return null;
  // Exact when all advantages are equal, as without credits.
  if (deciding.every(({ size }) => size === first.size)) return first.size;
  const count = deciding.reduce((sum, { decisions }) => sum + decisions, 0);
  return deciding.reduce((sum, { size, decisions }) => sum + size * decisions, 0) / count;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
