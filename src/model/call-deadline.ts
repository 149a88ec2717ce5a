import { longestTimerMs } from '../util/deadline.ts';
import { ModelCallTimeoutError } from './errors.ts';

/**
 * The signal of one call: aborts with the caller's, or when the time is up. Unlike `AbortSignal.any` it lets go of
 * the caller's signal at the end of the call.
 */
export class CallDeadline {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;

  constructor(model: string, timeoutMs: number, caller: AbortSignal | undefined) {
    this.#caller = caller;
    const expire = () => this.#controller.abort(new ModelCallTimeoutError(model, timeoutMs));
    this.#timer = setTimeout(expire, Math.min(timeoutMs, longestTimerMs));
    if (caller?.aborted) this.#follow();
    else caller?.addEventListener('abort', this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Lets go of the timer and of the caller's signal. */
  dispose(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#follow);
  }

  #follow = (): void => this.#controller.abort(this.#caller?.reason);
}

/** Settles with `work`, or rejects with the signal's reason as soon as it aborts. */
export async function untilAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (!signal) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
