import { MartingaleError } from '../contract/index.ts';

/**
 * - `setup_failed`: `setup` threw; no agent ran.
 * - `invalid_piece`: `prompt`, `observe`, `stop` or `tools` returned a value that the conversation cannot continue with.
 * - `tool_failed`: a tool threw, with `onToolError: 'fail'`.
 * - `on_error_failed`: `onError` threw. `errors` holds what it threw and the error it was called with.
 * - `reward_failed`, `group_reward_failed`: a reward threw, did not return finite numbers, or makes the trajectory's
 *   reward larger than a service accepts.
 * - `credit_failed`: `credit` threw, or did not return one number per call that a service accepts.
 * - `reward_timeout`, `group_reward_timeout`, `credit_timeout`: it took longer than `rewardTimeoutMs`.
 * - `metric_not_finite`: a metric of a trajectory is NaN, infinite, or neither a number nor a boolean.
 * - `trajectory_not_sendable`: a service would refuse the trajectory, for example for its number of metrics.
 * - `judge_call_failed`: the judge's model did not answer.
 * - `judge_answer_unusable`: the judge's answers stayed unusable for all `attempts`.
 * - `cleanup_timeout`: `cleanup` took longer than `cleanupTimeoutMs`.
 */
export type EnvironmentErrorCode =
  | 'setup_failed'
  | 'invalid_piece'
  | 'tool_failed'
  | 'on_error_failed'
  | 'reward_failed'
  | 'reward_timeout'
  | 'group_reward_failed'
  | 'group_reward_timeout'
  | 'credit_failed'
  | 'credit_timeout'
  | 'metric_not_finite'
  | 'trajectory_not_sendable'
  | 'judge_call_failed'
  | 'judge_answer_unusable'
  | 'cleanup_timeout';

/** The environment's own code failed. `cause` is what it threw. */
export class EnvironmentError extends MartingaleError<EnvironmentErrorCode> {
  /** Name of the reward, metric, tool or piece that failed; null for the environment's other functions. */
  readonly part: string | null;
  /** For `on_error_failed`: what `onError` threw, and the error it was called with. Else empty. */
  readonly errors: readonly unknown[];

  constructor(
    code: EnvironmentErrorCode,
    message: string,
    {
      part = null,
      errors = [],
      cause,
    }: { part?: string | null; errors?: readonly unknown[]; cause?: unknown } = {},
  ) {
    super(code, message, { cause });
    this.part = part;
    this.errors = errors;
  }
}

/** Error of a piece of the conversation: `prompt`, `observe`, `stop` or `tools`. */
export function pieceError(piece: string, what: string): EnvironmentError {
  return new EnvironmentError('invalid_piece', `\`${piece}\` ${what}`, { part: piece });
}

/**
 * - `invalid_scenario`: a scenario does not fit the environment's schema. `cause` is zod's error.
 * - `invalid_scenario_file`: a file of scenarios cannot be read. `path` and `line` say where.
 * - `invalid_scenario_set`: a set gives no scenario or has no end, or a scenario has no valid key.
 * - `scenario_position_refused`: a saved position belongs to another set, or the set's source has changed.
 */
export type ScenarioErrorCode =
  | 'invalid_scenario'
  | 'invalid_scenario_file'
  | 'invalid_scenario_set'
  | 'scenario_position_refused';

/** A scenario or a set of scenarios cannot be used. */
export class ScenarioError extends MartingaleError<ScenarioErrorCode> {
  /** The file that cannot be read; null if the error is not about a file. */
  readonly path: string | null;
  /** Line of the file, from 1; null if the error is about the whole file. */
  readonly line: number | null;

  constructor(
    code: ScenarioErrorCode,
    message: string,
    { path = null, line = null, cause }: { path?: string | null; line?: number | null; cause?: unknown } = {},
  ) {
    super(code, message, { cause });
    this.path = path;
    this.line = line;
  }
}

export function scenarioFileError(
  path: string,
  line: number | null,
  what: string,
  options?: ErrorOptions,
): ScenarioError {
  const message = `${line === null ? path : `${path}:${line}`}: ${what}`;
  return new ScenarioError('invalid_scenario_file', message, { path, line, ...options });
}

export function positionError(message: string): ScenarioError {
  return new ScenarioError('scenario_position_refused', message);
}
