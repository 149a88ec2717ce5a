import type { z } from 'zod';
import type { RolloutModel } from '../model/index.ts';
import type { LimitReason, Trajectory } from '../trajectory/index.ts';
import type { LoopPieces } from './loop/pieces.ts';
import type { OtherForm, SetupContext, SharedOptions } from './options.ts';
import type { RewardContext } from './rewards/reward.ts';
import type { NoTexts, TextSet } from './texts.ts';

/** One of several agents in a rollout. */
export interface Seat {
  readonly name: string;
  /** The model in this seat. Its calls are recorded in the seat's trajectory, wherever they are made. */
  readonly model: RolloutModel;
  /** The record of this seat: its calls, metrics and logs. */
  readonly trajectory: Trajectory;
  /**
   * Runs an agent in this seat: `policy()` is the seat's model, and tools are counted in its trajectory.
   *
   *     await seats.clerk.run(() => clerk.generate({ prompt }));
   */
  run<Result>(agent: () => Result): Result;
}

export type Seats<Name extends string = string> = { readonly [Each in Name]: Seat };

export interface SeatRolloutContext<Scenario, State, Name extends string, Texts = NoTexts>
  extends SetupContext<Scenario, Texts> {
  /** The result of `setup` for this rollout; undefined without `setup`. */
  state: State;
  /** The seats by their names. */
  seats: Seats<Name>;
}

/** Scores one seat of a rollout with a finite number. If it throws, the rollout fails for all seats. */
export type SeatRewardFunction<Scenario, Outcome, State, Name extends string> = (
  context: RewardContext<Scenario, Outcome, State> & { seat: Name },
) => number | PromiseLike<number>;

export interface SeatReward<Scenario, Outcome, State, Name extends string> {
  /** Factor in the sum. With 0 the value is only a metric and not trained on. Default 1. */
  weight?: number;
  /** The seats that it scores. Default: all. */
  seats?: readonly Name[];
  reward: SeatRewardFunction<Scenario, Outcome, State, Name>;
}

/** An environment of several agents: a game, a user and a clerk, a planner and workers. */
export interface SeatEnvironmentOptions<
  Schema extends z.ZodType,
  Outcome,
  State,
  Name extends string,
  Texts extends TextSet = NoTexts,
> extends Omit<SharedOptions<Schema, Outcome, State, Texts>, 'rewards'> {
  /**
   * Names of the seats. Each has its model, trajectory, rewards and metrics, and `limits` hold for each. The trained
   * model plays every seat that the option `seats` of `train` and `evaluate` gives to no other model.
   */
  seats: readonly Name[];
  /** Runs the agents of one rollout. The rewards receive its result as `outcome`. */
  rollout: (
    context: SeatRolloutContext<z.output<Schema>, State, Name, Texts>,
  ) => Outcome | PromiseLike<Outcome>;
  /** As in an environment with one agent: gives the outcome when a limit of a seat ended the rollout. */
  atLimit?: (
    context: SeatRolloutContext<z.output<Schema>, State, Name, Texts> & { reason: LimitReason },
  ) => NoInfer<Outcome> | PromiseLike<NoInfer<Outcome>>;
  /** As in an environment with one agent: gives the outcome when an agent threw. */
  onError?: (
    context: SeatRolloutContext<z.output<Schema>, State, Name, Texts> & { error: unknown },
  ) => NoInfer<Outcome> | undefined | PromiseLike<NoInfer<Outcome> | undefined>;
  /** The reward of a seat is the sum of weight times value over the rewards that score it. */
  rewards?: Readonly<
    Record<
      string,
      | SeatRewardFunction<z.output<Schema>, Outcome, State, Name>
      | SeatReward<z.output<Schema>, Outcome, State, Name>
    >
  >;
  prompt?: LoopPieces<z.output<Schema>, State, never, Texts>['prompt'] & OtherForm;
}
