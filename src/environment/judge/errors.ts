import { MartingaleError } from '../../contract/index.ts';

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
