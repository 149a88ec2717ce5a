import type { Trajectory } from '../../trajectory/index.ts';

export interface RewardContext<Scenario, Outcome, State = undefined> {
  scenario: Scenario;
  /** What came of the rollout: what the rollout function returned, or a LoopOutcome. */
  outcome: Outcome;
  /** What `setup` gave, as the rollout left it; it is cleaned up after the last reward. */
  state: State;
  /** Its `calls` can be given step rewards here too. */
  trajectory: Trajectory;
  /** Aborted when the reward's or the rollout's deadline passes, and when the run is stopped. */
  signal: AbortSignal;
}

/** Scores a rollout. Must give a finite number; a throw makes the rollout failed, never a reward of 0. */
export type RewardFunction<Scenario, Outcome, State = undefined> = (
  context: RewardContext<Scenario, Outcome, State>,
) => number | PromiseLike<number>;

export interface WeightedReward<Scenario, Outcome, State = undefined> {
  /** Its share in the sum. 0: a metric, which is followed and not trained on. */
  weight: number;
  reward: RewardFunction<Scenario, Outcome, State>;
}

/** Rewards by name; a plain function weighs 1. */
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
  /** Aborted when the group reward's deadline passes, and when the run is stopped. */
  signal: AbortSignal;
}

/**
 * Scores the rollouts of a group against each other, after all of them have ended: one finite number for each member,
 * in their order. A throw makes the group's completed rollouts failed, never a reward of 0.
 */
export type GroupRewardFunction<Scenario, Outcome> = (
  context: GroupRewardContext<Scenario, Outcome>,
) => readonly number[] | PromiseLike<readonly number[]>;

export interface WeightedGroupReward<Scenario, Outcome> {
  /** Its share in the sum. 0: a metric, which is followed and not trained on. */
  weight: number;
  reward: GroupRewardFunction<Scenario, Outcome>;
}

/** Group rewards by name; a plain function weighs 1. */
export type GroupRewards<Scenario, Outcome> = Record<
  string,
  GroupRewardFunction<Scenario, Outcome> | WeightedGroupReward<Scenario, Outcome>
>;
