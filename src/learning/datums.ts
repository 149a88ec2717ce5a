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
  weighTrajectories,
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

/** What a batch is made of, by the names that `gradient_step` events have for it. */
export interface BatchCounts {
  num_groups_submitted: number;
  /** Groups with at least one choice that trains on its advantage. */
  num_groups_trainable: number;
  /** The others: their choices' returns are equal, or none of their tokens was a decision. */
  num_groups_without_signal: number;
  /** All that were submitted, whether they train or not. */
  num_trajectories: number;
  /** Choices with a credit of their own in place of their trajectory's reward. */
  num_credited_choices: number;
  /** Decisions in the datums (see `countDecisions`). */
  num_trainable_tokens: number;
  num_datums: number;
  /** Tokens of the datums, context included. */
  train_tokens: number;
  /** Mean over all trajectories; 0 where there are none. */
  reward: number;
  /** Mean over the groups of two or more of their rewards' population standard deviation; 0 without such. */
  reward_std_dev: number;
}

export interface Batch<Constraint> {
  /** In the order of the groups, trajectories and histories. */
  datums: Datum<Constraint>[];
  counts: BatchCounts;
}

/**
 * From groups of rewarded trajectories to what an engine trains on: advantages within each group
 * (`choiceAdvantages`), with `normalize_advantages` divided by the batch's `advantageScale`, and weights over all of
 * them (`weighTrajectories`).
 *
 * An empty `datums` means that nothing in the batch has a signal; what follows from it is the caller's to decide
 * and to say.
 *
 * @throws LearningError for a reward that is not finite and for spans that do not fit their tokens.
 */
export function makeDatums<Constraint>(
  groups: readonly RewardedGroup<Constraint>[],
  config: Pick<
    ResolvedRlConfig,
    'scale_rewards' | 'advantage_balance' | 'normalize_advantages' | 'entropy_coefficient'
  >,
): Batch<Constraint> {
  const rewards = groups.map((group) => group.trajectories.map(({ reward }) => reward));
  const advantaged = groups.flatMap((group, groupIndex) =>
    withAdvantages(group, {
      scaleRewards: config.scale_rewards,
      advantageBalance: config.advantage_balance,
    }).map((sequences) => ({ groupIndex, sequences })),
  );
  if (config.normalize_advantages) {
    const scale = advantageScale(advantaged.flatMap(({ sequences }) => meanAdvantage(sequences) ?? []));
    for (const { sequences } of advantaged)
      for (const { spans } of sequences) for (const span of spans) span.advantage /= scale;
  }
  const weighed = weighTrajectories(advantaged, { entropyCoefficient: config.entropy_coefficient });
  const datums = weighed.flatMap((trajectory) => trajectory.datums);
  const trainableGroups = new Set(
    advantaged.flatMap(({ groupIndex, sequences }) => (hasAdvantage(sequences) ? [groupIndex] : [])),
  );
  const choices = groups.flatMap(({ trajectories }) =>
    trajectories.flatMap(({ sequences }) => sequences.flatMap(({ spans }) => spans)),
  );
  return {
    datums,
    counts: {
      num_groups_submitted: groups.length,
      num_groups_trainable: trainableGroups.size,
      num_groups_without_signal: groups.length - trainableGroups.size,
      num_trajectories: advantaged.length,
      num_credited_choices: choices.filter(({ credit }) => credit != null).length,
      num_trainable_tokens: weighed.reduce((sum, { decisions }) => sum + decisions, 0),
      num_datums: datums.length,
      train_tokens: datums.reduce((sum, { tokens }) => sum + tokens.length, 0),
      reward: mean(rewards.flat()),
      reward_std_dev: mean(rewards.filter((group) => group.length > 1).map(groupStandardDeviation)),
    },
  };
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

/** Mean of |A| over the decisions of a trajectory; null where it has none. */
function meanAdvantage(sequences: readonly AdvantagedSequence<unknown>[]): number | null {
  const deciding = sequences
    .flatMap(({ spans }) => spans)
    .map((span) => ({ size: Math.abs(span.advantage), decisions: countDecisions(span) }))
    .filter(({ decisions }) => decisions > 0);
  const [first] = deciding;
  if (!first) return null;
  // Exact where the choices share their trajectory's reward.
  if (deciding.every(({ size }) => size === first.size)) return first.size;
  const count = deciding.reduce((sum, { decisions }) => sum + decisions, 0);
  return deciding.reduce((sum, { size, decisions }) => sum + size * decisions, 0) / count;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
