import { MartingaleError } from '../contract/index.ts';
import { describeThrown } from './thrown.ts';

/** The environment's `setup` threw: no agent was run. `cause` is what it threw. */
export class SetupError extends MartingaleError {
  constructor(environment: string, what: string, options: ErrorOptions) {
    super('setup_failed', `\`setup\` of environment "${environment}" threw: ${what}`, options);
  }
}

/** A piece of an environment gave what the conversation cannot go on with. */
export class PieceError extends MartingaleError {
  /** `prompt`, `observe`, `stop` or `tools`. */
  readonly piece: string;

  constructor(piece: string, what: string) {
    super('invalid_piece', `\`${piece}\` ${what}`);
    this.piece = piece;
  }
}

/** A tool threw in an environment with `onToolError: 'fail'`. `cause` is what it threw. */
export class ToolError extends MartingaleError {
  readonly tool: string;

  constructor(tool: string, cause: unknown) {
    super('tool_failed', `The tool "${tool}" threw: ${describeThrown(cause)}`, { cause });
    this.tool = tool;
  }
}

interface RewardErrorOptions extends ErrorOptions {
  /** Default `failed`. */
  how?: 'failed' | 'timeout';
}

/**
 * A reward function threw, gave something other than a finite number (`reward_failed`), or did not answer in time
 * (`reward_timeout`). `cause` is what it threw.
 */
export class RewardError extends MartingaleError {
  readonly reward: string;

  constructor(reward: string, what: string, { how = 'failed', cause }: RewardErrorOptions = {}) {
    super(`reward_${how}`, `The reward "${reward}" ${what}. The rollout counts as failed.`, { cause });
    this.reward = reward;
  }
}

/**
 * A group reward threw, gave something other than one finite number for each member (`group_reward_failed`), or did
 * not answer in time (`group_reward_timeout`). `cause` is what it threw.
 */
export class GroupRewardError extends MartingaleError {
  readonly reward: string;

  constructor(reward: string, what: string, { how = 'failed', cause }: RewardErrorOptions = {}) {
    super(
      `group_reward_${how}`,
      `The group reward "${reward}" ${what}. The group's completed rollouts count as failed.`,
      { cause },
    );
    this.reward = reward;
  }
}

/**
 * A judge gave no usable verdict. `judge_call_failed`: its model could not be asked; `cause` is why.
 * `judge_answer_unusable`: it was asked as often as it may be, and the last answer is still wrong.
 */
export class JudgeError extends MartingaleError {
  constructor(what: 'call_failed' | 'answer_unusable', message: string, options?: ErrorOptions) {
    super(`judge_${what}`, message, options);
  }
}

/** An option of a judge that cannot be, or a cache file that is not one. */
export class JudgeOptionError extends MartingaleError {
  readonly option: string;

  constructor(option: string, what: string, options?: ErrorOptions) {
    super('invalid_judge_option', `${option} ${what}`, options);
    this.option = option;
  }
}

/** A scenario set that cannot be built as asked, or cannot give what it is asked for. */
export class ScenarioSetError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('invalid_scenario_set', message, options);
  }
}

/** A position that belongs to another set, or that the set can no longer be brought to. */
export class ScenarioPositionError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('scenario_position_refused', message, options);
  }
}

/** A file of scenarios that cannot be read; `line` is counted from 1 and null where the whole file is meant. */
export class ScenarioFileError extends MartingaleError {
  readonly path: string;
  readonly line: number | null;

  constructor(path: string, line: number | null, what: string, options?: ErrorOptions) {
    super('invalid_scenario_file', `${line === null ? path : `${path}:${line}`}: ${what}`, options);
    this.path = path;
    this.line = line;
  }
}
