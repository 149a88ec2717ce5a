/** What a timer can hold; it would fire at once for more. */
const longestTimerMs = 2 ** 31 - 1;

/** Calls `fire` after so many milliseconds; longer than any timer can hold means never. */
export function startTimer(milliseconds: number, fire: () => void): { clear: () => void } {
  if (milliseconds > longestTimerMs) return { clear: () => undefined };
  const timer = setTimeout(fire, Math.max(0, milliseconds));
  return { clear: () => clearTimeout(timer) };
}

export interface DeadlineOptions {
  timeoutMs: number;
  /** Ends the waiting before its time, with its reason. */
  signal: AbortSignal | undefined;
  /** What the waiting ends with when the time is up. */
  timedOut: () => Error;
}

/**
 * Waits for `work` until it settles, the time is up or `signal` is aborted; the signal that `work` is given is aborted
 * in both of the latter. Work that goes on all the same is left alone, and what becomes of it is not looked at.
 */
export async function withDeadline<Result>(
  { timeoutMs, signal, timedOut }: DeadlineOptions,
  work: (signal: AbortSignal) => PromiseLike<Result> | Result,
): Promise<Result> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (reason: unknown) => {
    reject(reason);
    controller.abort(reason);
  };
  const timer = startTimer(timeoutMs, () => end(timedOut()));
  const onAbort = () => end(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    // Awaited within: what `work` throws at once must settle the race as well.
    return await Promise.race([(async () => work(controller.signal))(), ended]);
  } finally {
    timer.clear();
    signal?.removeEventListener('abort', onAbort);
  }
}
