/** The longest delay that a Node timer holds, in milliseconds: 24.8 days. A timer with a longer one fires at once. */
export const longestTimerMs = 2 ** 31 - 1;

/** Calls `fire` once after `milliseconds`. A delay that no timer can hold, such as Infinity, means never. */
export function startTimer(
  milliseconds: number,
  fire: () => void,
): { clear: () => void; restart: () => void } {
  if (milliseconds > longestTimerMs) return { clear: () => undefined, restart: () => undefined };
  const timer = setTimeout(fire, Math.max(0, milliseconds));
  return { clear: () => clearTimeout(timer), restart: () => void timer.refresh() };
}

/**
 * One signal for one piece of work: it aborts when the caller's signal does, with its reason, or when the time is up.
 * Unlike `AbortSignal.any` it lets go of the caller's signal at the end: that one may live as long as a run of many
 * thousand calls.
 */
export class Deadline {
  readonly timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: { clear: () => void; restart: () => void };
  #expired = false;

  /** `timedOut` makes the reason with which the signal aborts when the time is up. Default: an AbortError. */
  constructor(timeoutMs: number, caller: AbortSignal | undefined, timedOut?: () => Error) {
    this.timeoutMs = timeoutMs;
    this.#caller = caller;
    this.#timer = startTimer(timeoutMs, () => {
      this.#expired = true;
      this.#controller.abort(timedOut?.());
    });
    if (caller?.aborted) this.#follow();
    else caller?.addEventListener('abort', this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time ended the work, and not the caller. */
  get expired(): boolean {
    return this.#expired;
  }

  /** Starts the time again. */
  restart(): void {
    this.#timer.restart();
  }

  /** Lets go of the timer and of the caller's signal. */
  clear(): void {
    this.#timer.clear();
    this.#caller?.removeEventListener('abort', this.#follow);
  }

  #follow = (): void => this.#controller.abort(this.#caller?.reason);
}

/** Settles with `work`, or rejects with the signal's reason as soon as it aborts. The work itself goes on. */
export async function untilAborted<Result>(
  work: PromiseLike<Result>,
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

export interface DeadlineOptions {
  timeoutMs: number;
  /** Ends the wait early, with its reason. */
  signal: AbortSignal | undefined;
  /** What the wait rejects with when the time is up. */
  timedOut: () => Error;
}

/**
 * Waits for `work` until it settles, the time is up or `signal` aborts. In the latter two cases the signal that `work`
 * receives aborts too. Work that ignores its signal goes on, and nobody looks at its result.
 */
export async function withDeadline<Result>(
  { timeoutMs, signal, timedOut }: DeadlineOptions,
  work: (signal: AbortSignal) => PromiseLike<Result> | Result,
): Promise<Result> {
  signal?.throwIfAborted();
  const deadline = new Deadline(timeoutMs, signal, timedOut);
  try {
    // An async function: what `work` throws synchronously must settle the race as well.
    return await untilAborted((async () => work(deadline.signal))(), deadline.signal);
  } finally {
    deadline.clear();
  }
}
