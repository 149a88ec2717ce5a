import { longestTimerMs } from '../util/deadline.ts';
/**
 * One signal for a call: aborts with the caller's signal, or when the time is up. Unlike `AbortSignal.any` it lets
 * go of the caller's signal at the end, which may live as long as a run of many thousand calls.
 */
export class Deadline {
  readonly timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  #expired = false;

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.timeoutMs = timeoutMs;
    this.#caller = caller;
    this.#timer = setTimeout(this.#expire, Math.min(timeoutMs, longestTimerMs));
    if (caller?.aborted) this.#follow();
    else caller?.addEventListener('abort', this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether it was the time that ended the call. */
  get expired(): boolean {
    return this.#expired;
  }

  /** Starts the time again. */
  restart(): void {
    this.#timer.refresh();
  }

  /** Lets go of the timer and of the caller's signal. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#follow);
  }

  #expire = (): void => {
    this.#expired = true;
    this.#controller.abort();
  };

  #follow = (): void => this.#controller.abort(this.#caller?.reason);
}
