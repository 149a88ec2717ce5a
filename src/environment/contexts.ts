import type { RolloutModel } from '../model/index.ts';
import type { LimitReason, Trajectory } from '../trajectory/index.ts';

/** What is known before a rollout's agent begins. */
export interface SetupContext<Scenario> {
  scenario: Scenario;
  /** Unsigned 32-bit integer: the seed of whatever this rollout draws at random. */
  seed: number;
  /** Aborted when the rollout's deadline passes or the run is stopped. */
  signal: AbortSignal;
}

export interface CleanupContext<Scenario, State> {
  scenario: Scenario;
  /** What `setup` gave. */
  state: State;
  /** Aborted when the clean-up's own deadline passes; neither the rollout's end nor a stopped run aborts it. */
  signal: AbortSignal;
}

export interface RolloutContext<Scenario, State = undefined> {
  scenario: Scenario;
  /** What `setup` gave for this rollout; undefined where there is none. */
  state: State;
  /** What the agent is to call: `model.languageModel` for the AI SDK, `model.endpoint()` for everything else. */
  model: RolloutModel;
  /** The record of this rollout: write `metrics`, `metadata` and `logs` here, and step rewards with `rewardCall`. */
  trajectory: Trajectory;
  /**
   * Aborted when the rollout's deadline passes, when its `milliseconds` are used up (its reason is then a
   * LimitReachedError), when the run is stopped, and at last when the rollout has ended.
   */
  signal: AbortSignal;
  /** Unsigned 32-bit integer: the seed of whatever this rollout draws at random. */
  seed: number;
}

/** A rollout whose agent was refused a call, or interrupted, because a limit is used up, or threw where the context is full. */
export interface LimitContext<Scenario, State = undefined> extends RolloutContext<Scenario, State> {
  reason: LimitReason;
}

/** A rollout whose agent threw, for a reason that may be the policy's own doing. */
export interface ErrorContext<Scenario, State = undefined> extends RolloutContext<Scenario, State> {
  /** What the agent threw. */
  error: unknown;
}
