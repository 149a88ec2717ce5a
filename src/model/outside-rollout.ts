import { unexpectedCall } from '../trajectory/index.ts';

/** What happens to a call of a recorded model outside of any rollout. */
export type OutsideRollout = 'answer' | 'warn' | 'error';

/** Applies the setting to calls outside of a rollout. Warns only once. */
export class OutsideCalls {
  readonly #policy: OutsideRollout;
  #hasWarned = false;

  constructor(policy: OutsideRollout) {
    this.#policy = policy;
  }

  /** @throws TrajectoryError if the setting is `error`. */
  meet(model: string): void {
    if (this.#policy === 'answer' || this.#hasWarned) return;
    const what =
      `"${model}" was called outside of a rollout, through the handle that rollouts were given: the call is in no ` +
      'trajectory. Make it within the rollout function, in the async scope it runs in; for a judge or teacher use ' +
      '`model.with({ record: false })`.';
    if (this.#policy === 'error') throw unexpectedCall('outside_rollout', what);
    this.#hasWarned = true;
    process.emitWarning(what, { type: 'MartingaleWarning', code: 'MARTINGALE_OUTSIDE_ROLLOUT' });
  }
}
