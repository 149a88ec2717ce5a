import { MartingaleError } from '../contract/basics.ts';
import { showValue } from './show-value.ts';

/**
 * - `unknown_option`: the function has no such option.
 * - `invalid_option`: the value of the option is of another kind, such as a text in place of a function.
 * - All others: the value of the option cannot be used. The code names what was called: a call budget, a client, an
 *   environment, an evaluation or comparison, a judge, a model, a view of progress, a rollout or group, a training run,
 *   a scenario set.
 */
export type OptionErrorCode =
  | 'unknown_option'
  | 'invalid_option'
  | 'invalid_call_budget'
  | 'invalid_client_option'
  | 'invalid_environment'
  | 'invalid_evaluation_option'
  | 'invalid_judge_option'
  | 'invalid_model_option'
  | 'invalid_progress'
  | 'invalid_rollout_option'
  | 'invalid_run_option'
  | 'invalid_scenario_set';

/** An option or argument is wrong. Thrown before the function does anything else. */
export class OptionError extends MartingaleError<OptionErrorCode> {
  /** Path of the option, such as `validation.everySteps`. */
  readonly option: string;
  readonly #value: unknown;

  constructor(
    code: OptionErrorCode,
    message: string,
    { option, value, cause }: { option: string; value?: unknown; cause?: unknown },
  ) {
    super(code, message, { cause });
    this.option = option;
    this.#value = value;
  }

  /** The passed value. Printing the error does not show it, because it may be secret. */
  get value(): unknown {
    return this.#value;
  }
}

/** An error with a message such as `` `steps` is 0. Pass a whole number of at least 1. `` */
export function invalidOption(
  code: OptionErrorCode,
  option: string,
  value: unknown,
  remedy: string,
): OptionError {
  return new OptionError(code, `\`${option}\` is ${showValue(value)}. ${remedy}`, { option, value });
}

/** @throws OptionError if the value is not a whole number of at least `minimum`, and at most `maximum` if that is given. */
export function wholeNumberOption(
  code: OptionErrorCode,
  option: string,
  value: number,
  minimum: number,
  maximum = Number.MAX_SAFE_INTEGER,
): number {
  if (Number.isSafeInteger(value) && value >= minimum && value <= maximum) return value;
  const most = maximum === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${maximum}`;
  throw invalidOption(code, option, value, `Pass a whole number of at least ${minimum}${most}.`);
}
