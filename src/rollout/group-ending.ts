import { MartingaleError } from '../contract/index.ts';
import { longestTimerMs } from '../util/deadline.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

/** One signal that ends a group's rollouts, and what it makes of those that it ended. */
export class GroupEnding {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #run: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #verdict: { status: 'failed' | 'cancelled'; failure: RolloutFailure } | undefined;

  constructor(timeoutMs: number, run: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs;
    this.#run = run;
    if (run?.aborted) this.#follow();
    else run?.addEventListener('abort', this.#follow, { once: true });
    if (timeoutMs !== Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(this.#expire, Math.min(timeoutMs, longestTimerMs));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasEnded(): boolean {
    return this.signal.aborted;
  }

  /** Cancels what has not ended, because the rollout in this place has failed. */
  failFast(index: number, { code, message }: RolloutFailure): void {
    this.#end('cancelled', {
      code: 'sibling_failed',
      message: `Rollout ${index} of the same group failed first (${code}: ${message}), and its strategy is fail_fast.`,
    });
  }

  /** A rollout as the group sees it: one that the group itself ended has the group's reason. */
  judge<Outcome>(rollout: Rollout<Outcome>): Rollout<Outcome> {
    if (rollout.status !== 'cancelled' || !this.#verdict) return rollout;
    return { ...rollout, ...this.#verdict };
  }

  /** Lets go of the timer and of the run's signal. */
  dispose(): void {
    clearTimeout(this.#timer);
    this.#run?.removeEventListener('abort', this.#follow);
  }

  #end(status: 'failed' | 'cancelled', failure: RolloutFailure): void {
    if (this.hasEnded) return;
    this.#verdict = { status, failure };
    this.#controller.abort(new MartingaleError(failure.code, failure.message));
  }

  #expire = (): void =>
    this.#end('failed', {
      code: 'group_timeout',
      message:
        `The group had not ended after ${this.#timeoutMs} ms, waiting for room included. Raise groupTimeoutMs or ` +
        'the concurrency, or ask for fewer rollouts at once.',
    });

  #follow = (): void => this.#controller.abort(this.#run?.reason);
}
