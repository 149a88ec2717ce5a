/** The longest delay a Node timer supports, in milliseconds (24.8 days). A timer with a longer one fires at once. */
export const maxTimerMs = 2 ** 31 - 1;

/** Calls `fire` once after `milliseconds`. A delay longer than a timer supports, such as Infinity, means never. */
export function startTimer(
  milliseconds: number,
  fire: () => void,
): { clear: () => void; restart: () => void } {
  if (milliseconds > maxTimerMs) return { clear: () => undefined, restart: () => undefined };
  const timer = setTimeout(fire, Math.max(0, milliseconds));
  return { clear: () => clearTimeout(timer), restart: () => void timer.refresh() };
}

/**
 * One signal for one piece of work. It aborts when the caller's signal does, with the same reason, or when the time is
 * up. Unlike `AbortSignal.any`, it detaches from the caller's signal when cleared: that signal may live for a run of
 * many thousand calls.
 */
export class Deadline {
  readonly timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: { clear: () => void; restart: () => void };
  #expired = false;

  /** `timedOut` makes the abort reason for when the time is up. Default: an AbortError. */
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

  /** Whether the timeout, not the caller, ended the work. */
  get expired(): boolean {
    return this.#expired;
  }

  /** Aborts now, with this reason, unless the signal has already aborted. */
  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Restarts the timeout. */
  restart(): void {
    this.#timer.restart();
  }

  /** Releases the timer and the caller's signal. */
  clear(): void {
    this.#timer.clear();
    this.#caller?.removeEventListener('abort', this.#follow);
  }

  #follow = (): void => this.#controller.abort(this.#caller?.reason);
}

/** Settles with `work`, or rejects with the signal's reason as soon as it aborts. The work itself continues. */
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

interface DeadlineOptions {
  timeoutMs: number;
  /** Ends the wait early, with the signal's reason. */
  signal: AbortSignal | undefined;
  /** Makes the error for when the time is up. */
  timedOut: () => Error;
}

/**
 * Waits for `work` until it settles, the time is up or `signal` aborts. In the last two cases the signal passed to
 * `work` aborts too. Work that ignores its signal continues, and its result is dropped.
 */
export async function withDeadline<Result>(
  { timeoutMs, signal, timedOut }: DeadlineOptions,
  work: (signal: AbortSignal) => PromiseLike<Result> | Result,
): Promise<Result> {
  signal?.throwIfAborted();
  const deadline = new Deadline(timeoutMs, signal, timedOut);
  try {
    // Async, so that an error that `work` throws synchronously also settles the race.
    return await untilAborted((async () => work(deadline.signal))(), deadline.signal);
  } finally {
    deadline.clear();
  }
}
