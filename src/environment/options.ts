import type { z } from 'zod';
import type { RolloutModel } from '../model/index.ts';
import type { LimitReason, RolloutLimits, Trajectory } from '../trajectory/index.ts';
import type { Credit } from './credit.ts';
import type { LoopOutcome, LoopPieces } from './loop/pieces.ts';
import type { GroupRewards, Rewards } from './rewards/reward.ts';

/** What both forms of an environment have. Types are inferred in the order of writing: `setup` first, rewards last. */
export interface SharedOptions<Schema extends z.ZodType, Outcome, State> {
  /** Names the run directory and the spans. */
  name: string;
  /** Schema of a scenario; each is parsed once, before its first rollout. */
  scenario: Schema;
  /**
   * What each rollout may use, in model calls (`turns`), sampled `tokens`, `toolCalls` and `milliseconds` (from the
   * rollout's start, with its set-up). Default: no limits. A used-up limit refuses the next model call;
   * `milliseconds` also interrupts what is under way. The reason stands in the trajectory as `stopReason`.
   */
  limits?: RolloutLimits;
  /**
   * Runs before the agent; what it gives is the rollout's own `state`. A throw fails the rollout (`setup_failed`).
   * Default: no state.
   */
  setup?: (context: SetupContext<z.output<Schema>>) => State | PromiseLike<State>;
  /**
   * Runs once after the rewards, or after whatever else ended the rollout, wherever `setup` gave a state (where there
   * is no `setup`: after every rollout that began). What it throws stands in the trajectory's logs and as its metric
   * `cleanup_failed`, and changes no reward.
   */
  cleanup?: (context: CleanupContext<z.output<Schema>, State>) => unknown;
  /** Deadline of `cleanup` in milliseconds. Default 30,000. */
  cleanupTimeoutMs?: number;
  /**
   * The reward is the sum of weight times value; a plain function weighs 1. Each value also becomes a metric of the
   * trajectory, under its name here. Call one `success` and reports show its mean.
   */
  rewards?: Rewards<z.output<Schema>, Outcome, State>;
  /** Added to the reward when all rollouts of a scenario's group have ended; each value becomes a metric as well. */
  groupRewards?: GroupRewards<z.output<Schema>, Outcome>;
  /** What each model call is credited with, in place of its trajectory's reward. Default: calls have no credit of their own. */
  credit?: Credit<z.output<Schema>, Outcome>;
}

/** An environment whose agent is run by a function of yours. */
export interface RolloutEnvironmentOptions<Schema extends z.ZodType, Outcome, State>
  extends SharedOptions<Schema, Outcome, State> {
  /** Runs the agent once. What it returns is given to the rewards. */
  rollout: (context: RolloutContext<z.output<Schema>, State>) => Outcome | PromiseLike<Outcome>;
  /**
   * What came of a rollout that a limit ended, in place of what `rollout` returned or threw; it is scored. It is
   * called at once, also where `rollout` has not returned. It is also called where `rollout` throws at the end of the
   * model's context (`context_limit`): the service refused a prompt as too long, or cut the last reply there.
   *
   * Default: a rollout that throws after a limit, or that the time limit interrupts, is failed with the limit's code
   * (`turn_limit`, `token_limit`, `tool_call_limit`, `time_limit`); one that returns is scored.
   */
  atLimit?: (
    context: LimitContext<z.output<Schema>, State>,
  ) => NoInfer<Outcome> | PromiseLike<NoInfer<Outcome>>;
  /**
   * What came of a rollout whose agent threw, where that may be the policy's own doing: an output that cannot be read,
   * a tool call that is none, a tool's or the agent's own exception, a conversation that outgrew the model's context
   * (where there is no `atLimit`). What it returns is scored, and trained on; undefined, or the same error thrown again,
   * leaves the rollout failed; another error fails it with `on_error_failed`.
   *
   * It is not asked where a model call of the rollout got no answer (the service is away, 429, 5xx, a deadline, an
   * abort), where a call cannot be trained on, where one of `limits` is used up, for other errors of martingale (a judge's,
   * say) and of model providers, after the rollout's deadline or the end of the run, and for set-up, rewards, credit and
   * clean-up. Default: what the agent throws fails its rollout.
   */
  onError?: (
    context: ErrorContext<z.output<Schema>, State>,
  ) => NoInfer<Outcome> | undefined | PromiseLike<NoInfer<Outcome> | undefined>;
  prompt?: LoopPieces<z.output<Schema>, State, never>['prompt'] & OtherForm;
}

/**
 * Nothing has it, so a property of this type cannot be given. In place of `never` it leaves the property's own type to
 * be read by: else TypeScript, which tries this form first, would take the literals of a `prompt` for any strings.
 */
interface OtherForm {
  readonly 'Give either `rollout` or `prompt`': never;
}

/** An environment of pieces, for whom the conversation is led. A limit ends the conversation, which is then scored. */
export interface LoopEnvironmentOptions<Schema extends z.ZodType, Parsed, State>
  extends SharedOptions<Schema, LoopOutcome<Parsed>, State>,
    LoopPieces<z.output<Schema>, State, Parsed> {
  /**
   * What came of a rollout in which a piece or, with `onToolError: 'fail'`, a tool threw, or whose conversation outgrew
   * the model's context. `outcome` is what has been said so far: return it to have it scored. When this is asked, and
   * what it may answer, is that of the other form's `onError`.
   */
  onError?: (
    context: ErrorContext<z.output<Schema>, State> & { outcome: LoopOutcome<NoInfer<Parsed>> },
  ) => LoopOutcome<NoInfer<Parsed>> | undefined | PromiseLike<LoopOutcome<NoInfer<Parsed>> | undefined>;
  rollout?: never;
}

export type EnvironmentOptions<Schema extends z.ZodType, Outcome, State = undefined, Parsed = never> =
  | RolloutEnvironmentOptions<Schema, Outcome, State>
  | LoopEnvironmentOptions<Schema, Parsed, State>;

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
   * TrajectoryError), when the run is stopped, and at last when the rollout has ended.
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
