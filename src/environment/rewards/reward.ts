import type { Trajectory } from '../../trajectory/index.ts';

export interface RewardContext<Scenario, Outcome, State = undefined> {
  scenario: Scenario;
  /** The result of the rollout function, or a LoopOutcome. */
  outcome: Outcome;
  /** The result of `setup` after the rollout. `cleanup` runs after the last reward. */
  state: State;
  /** The record of the rollout. Rewards may set step rewards of its `calls`. */
  trajectory: Trajectory;
  /** The seat to score, whose record `trajectory` is. Absent in an environment with one agent. */
  seat?: string | undefined;
  /** Aborted when the reward's or the rollout's deadline passes, and when the run is stopped. */
  signal: AbortSignal;
}

/** Scores a rollout with a finite number. If it throws, the rollout fails; it never becomes a reward of 0. */
export type RewardFunction<Scenario, Outcome, State = undefined> = (
  context: RewardContext<Scenario, Outcome, State>,
) => number | PromiseLike<number>;

export interface WeightedReward<Scenario, Outcome, State = undefined> {
  /** Factor in the sum. With 0 the value is only a metric and not trained on. */
  weight: number;
  reward: RewardFunction<Scenario, Outcome, State>;
}

/** Rewards by name. A plain function has weight 1. */
export type Rewards<Scenario, Outcome, State = undefined> = Record<
  string,
  RewardFunction<Scenario, Outcome, State> | WeightedReward<Scenario, Outcome, State>
>;

/** A completed rollout, as group rewards see it. */
export interface GroupMember<Outcome> {
  outcome: Outcome;
  trajectory: Trajectory;
  /** Its reward before any group reward. */
  reward: number;
}

export interface GroupRewardContext<Scenario, Outcome> {
  scenario: Scenario;
  /** The completed rollouts of the scenario's group, in order of their index. At least one. */
  members: readonly GroupMember<Outcome>[];
  /** The seat that all members played. Absent in an environment with one agent. */
  seat?: string | undefined;
  /** Aborted when the group reward's deadline passes, and when the run is stopped. */
  signal: AbortSignal;
}

/**
 * Compares the rollouts of a group after all of them have ended: one finite number per member, in their order. If it
 * throws, the group's completed rollouts fail; it never becomes a reward of 0.
 */
export type GroupRewardFunction<Scenario, Outcome> = (
  context: GroupRewardContext<Scenario, Outcome>,
) => readonly number[] | PromiseLike<readonly number[]>;

export interface WeightedGroupReward<Scenario, Outcome> {
  /** Factor in the sum. With 0 the value is only a metric and not trained on. */
  weight: number;
  reward: GroupRewardFunction<Scenario, Outcome>;
}

/** Group rewards by name. A plain function has weight 1. */
export type GroupRewards<Scenario, Outcome> = Record<
  string,
  GroupRewardFunction<Scenario, Outcome> | WeightedGroupReward<Scenario, Outcome>
>;
