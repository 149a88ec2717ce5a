import type { z } from 'zod';
import type { RolloutModel } from '../model/index.ts';
import type { LimitReason, RolloutLimits, Trajectory } from '../trajectory/index.ts';
import type { Credit } from './credit.ts';
import type { LoopOutcome, LoopPieces } from './loop/pieces.ts';
import type { GroupRewards, Rewards } from './rewards/reward.ts';
import type { NoTexts, TextSet } from './texts.ts';

/**
 * Options of both forms of an environment. TypeScript infers types in the order of the properties: write `setup` first
 * and the rewards last.
 */
export interface SharedOptions<Schema extends z.ZodType, Outcome, State, Texts extends TextSet = NoTexts> {
  /** Names the run directory and the spans. */
  name: string;
  /** Zod schema of a scenario. Each scenario is parsed once, before its first rollout. */
  scenario: Schema;
  /**
   * What lists of a run call a scenario: one line, recorded with its group. Default: the first text in the scenario that
   * has several words.
   */
  title?: (scenario: z.output<Schema>) => string;
  /**
   * Texts that the agent is given as `texts`, by name: a system prompt, descriptions of tools, example lines. These are
   * the ones that `train` and `evaluate` use; `environment.withTexts()` has others, and `optimize` improves them.
   * Default: none.
   */
  texts?: Texts;
  /**
   * Limits of each rollout: model calls (`turns`), sampled `tokens`, `toolCalls`, and `milliseconds` since the rollout's
   * start, set-up included. Default: no limits. When a limit is used up, the next model call is refused;
   * `milliseconds` also interrupts the call in flight. The trajectory's `stopReason` names the limit.
   */
  limits?: RolloutLimits;
  /**
   * What a model call means that got no answer and was not repeated with success, if the agent goes on without it: a cut
   * connection, an error of the service, a timeout. `error` (the default) fails the rollout (`call_unanswered`), because
   * its outcome is not the policy's doing alone. `warn` scores the outcome, counts such calls in the metric
   * `unanswered_calls` and adds their errors to the trajectory's logs: for an agent that aborts calls on purpose, such
   * as the slower of two.
   */
  onUnansweredCall?: 'error' | 'warn';
  /**
   * Runs before the agent. Its result is the rollout's own `state`. If it throws, the rollout fails (`setup_failed`).
   * Default: no state.
   */
  setup?: (context: SetupContext<z.output<Schema>, Texts>) => State | PromiseLike<State>;
  /**
   * Runs once at the end of a rollout, after its rewards, if `setup` returned a state (without `setup`: after every
   * rollout that began). An error is added to the trajectory's logs, sets its metric `cleanup_failed`, and changes no
   * reward.
   */
  cleanup?: (context: CleanupContext<z.output<Schema>, State>) => unknown;
  /** Deadline of `cleanup` in milliseconds. Default 30,000. */
  cleanupTimeoutMs?: number;
  /**
   * The trajectory's reward is the sum of weight times value; a plain function has weight 1. Each value also becomes a
   * metric of the trajectory under its name. Reports show the mean of a reward named `success`.
   */
  rewards?: Rewards<z.output<Schema>, Outcome, State>;
  /** Added to the reward when all rollouts of a scenario's group have ended. Each value also becomes a metric. */
  groupRewards?: GroupRewards<z.output<Schema>, Outcome>;
  /** Credits each model call with a reward of its own instead of its trajectory's. Default: no credit per call. */
  credit?: Credit<z.output<Schema>, Outcome>;
}

/** An environment with a function that runs your agent. */
export interface RolloutEnvironmentOptions<
  Schema extends z.ZodType,
  Outcome,
  State,
  Texts extends TextSet = NoTexts,
> extends SharedOptions<Schema, Outcome, State, Texts> {
  /** Runs the agent once. The rewards receive its result as `outcome`. */
  rollout: (context: RolloutContext<z.output<Schema>, State, Texts>) => Outcome | PromiseLike<Outcome>;
  /**
   * Gives the outcome of a rollout that a limit ended, instead of what `rollout` returned or threw. The outcome is
   * scored. `atLimit` runs as soon as the limit ends the rollout, even if `rollout` has not returned. It also runs
   * when `rollout` throws at the end of the model's context (`context_limit`): the service refused a prompt as too
   * long, or cut the last reply there.
   *
   * Default: a rollout that throws after a limit, or that the time limit interrupts, fails with the limit's code
   * (`turn_limit`, `token_limit`, `tool_call_limit`, `time_limit`); a rollout that returns is scored.
   */
  atLimit?: (
    context: LimitContext<z.output<Schema>, State, Texts>,
  ) => NoInfer<Outcome> | PromiseLike<NoInfer<Outcome>>;
  /**
   * Gives the outcome of a rollout whose agent threw, if the policy may have caused the error: an output that cannot be
   * read, an invalid tool call, an exception of a tool or of the agent, a conversation longer than the model's context
   * (without `atLimit`). A returned outcome is scored and trained on. If it returns undefined or throws the same error
   * again, the rollout stays failed; if it throws another error, the rollout fails with `on_error_failed`.
   *
   * It is not called if a model call of the rollout had no answer (service unreachable, 429, 5xx, deadline, abort), if
   * a call cannot be trained on, if one of `limits` is used up, for other errors of martingale (such as a judge's) and
   * of model providers, after the rollout's deadline or the end of the run, and for errors of `setup`, rewards, `credit`
   * and `cleanup`. Default: an error of the agent fails its rollout.
   */
  onError?: (
    context: ErrorContext<z.output<Schema>, State, Texts>,
  ) => NoInfer<Outcome> | undefined | PromiseLike<NoInfer<Outcome> | undefined>;
  prompt?: LoopPieces<z.output<Schema>, State, never, Texts>['prompt'] & OtherForm;
  seats?: never;
}

/**
 * No value has this property, so `prompt` cannot be given here. A plain `never` would hide the type of `prompt`:
 * TypeScript tries this form first and would then widen literals in it to `string`.
 */
export interface OtherForm {
  readonly 'Give either `rollout` or `prompt`': never;
}

/** An environment of pieces: martingale runs the conversation. When a limit ends it, it is scored as it is. */
export interface LoopEnvironmentOptions<
  Schema extends z.ZodType,
  Parsed,
  State,
  Texts extends TextSet = NoTexts,
> extends SharedOptions<Schema, LoopOutcome<Parsed>, State, Texts>,
    LoopPieces<z.output<Schema>, State, Parsed, Texts> {
  /**
   * Gives the outcome of a rollout in which a piece threw, a tool threw with `onToolError: 'fail'`, or the conversation
   * became longer than the model's context. `outcome` is the conversation so far: return it to score it. It is called
   * under the same conditions, and may return the same, as `onError` of the other form.
   */
  onError?: (
    context: ErrorContext<z.output<Schema>, State, Texts> & { outcome: LoopOutcome<NoInfer<Parsed>> },
  ) => LoopOutcome<NoInfer<Parsed>> | undefined | PromiseLike<LoopOutcome<NoInfer<Parsed>> | undefined>;
  rollout?: never;
  seats?: never;
}

export type EnvironmentOptions<
  Schema extends z.ZodType,
  Outcome,
  State = undefined,
  Parsed = never,
  Texts extends TextSet = NoTexts,
> =
  | RolloutEnvironmentOptions<Schema, Outcome, State, Texts>
  | LoopEnvironmentOptions<Schema, Parsed, State, Texts>;

/** What `setup` knows. */
export interface SetupContext<Scenario, Texts = NoTexts> {
  scenario: Scenario;
  /** The environment's texts by name; without the option `texts`, none. */
  texts: Texts;
  /** Seed for random choices in this rollout: an unsigned 32-bit integer. */
  seed: number;
  /** Aborted when the rollout's deadline passes or the run is stopped. */
  signal: AbortSignal;
}

export interface CleanupContext<Scenario, State> {
  scenario: Scenario;
  /** The result of `setup`. */
  state: State;
  /** Aborts when the deadline of the clean-up passes. The end of the rollout and of the run do not abort it. */
  signal: AbortSignal;
}

export interface RolloutContext<Scenario, State = undefined, Texts = NoTexts> {
  scenario: Scenario;
  /** The environment's texts by name; without the option `texts`, none. */
  texts: Texts;
  /** The result of `setup` for this rollout; undefined without `setup`. */
  state: State;
  /** The model that the agent calls: `model.languageModel` for the AI SDK, `model.endpoint()` for everything else. */
  model: RolloutModel;
  /** The record of this rollout: write `metrics`, `metadata` and `logs` here, and step rewards with `rewardCall`. */
  trajectory: Trajectory;
  /**
   * Aborted when the rollout's deadline passes, when its `milliseconds` are used up (the reason is then a
   * TrajectoryError), when the run is stopped, and when the rollout has ended.
   */
  signal: AbortSignal;
  /** Seed for random choices in this rollout: an unsigned 32-bit integer. */
  seed: number;
}

/** A rollout that a limit ended, or whose agent threw at the end of the model's context. */
export interface LimitContext<Scenario, State = undefined, Texts = NoTexts>
  extends RolloutContext<Scenario, State, Texts> {
  reason: LimitReason;
}

/** A rollout whose agent threw an error that the policy may have caused. */
export interface ErrorContext<Scenario, State = undefined, Texts = NoTexts>
  extends RolloutContext<Scenario, State, Texts> {
  /** What the agent threw. */
  error: unknown;
}
