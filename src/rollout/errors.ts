import { MartingaleError } from '../contract/index.ts';
import { showValue } from '../util/complaint.ts';

/** An option of the executors, of runGroup() or of runGroups() that cannot be. */
export class RolloutOptionError extends MartingaleError {
  readonly option: string;

  constructor(option: string, value: unknown, remedy: string) {
    super('invalid_rollout_option', `${option} is ${showValue(value)}. ${remedy}`);
    this.option = option;
  }
}

/** @throws RolloutOptionError where the value is not a whole number from `least` up. */
export function wholeNumber(option: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new RolloutOptionError(option, value, `Give a whole number from ${least} up.`);
}

/** @throws RolloutOptionError where the value is not above 0; Infinity is. */
export function milliseconds(option: string, value: number): number {
  if (value > 0) return value;
  throw new RolloutOptionError(option, value, 'Give a time in milliseconds above 0.');
}
