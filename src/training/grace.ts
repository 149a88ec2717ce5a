/**
 * Total time that calls in flight get to finish after the run was stopped, for calls that are better not interrupted.
 */
export const stopGraceMs = 10_000;

/** Minimum time for each such call, even if earlier calls have used up the total. */
const minGraceMs = 1000;

/** When each signal was first seen aborted. */
const abortedAt = new WeakMap<AbortSignal, number>();

function sinceAbort(signal: AbortSignal): number {
  const at = abortedAt.get(signal) ?? performance.now();
  abortedAt.set(signal, at);
  return performance.now() - at;
}

/**
 * Starts the grace period exactly at the abort of this signal. Without this call it starts at the first `withGrace`.
 */
export function countGrace(signal: AbortSignal): void {
  if (signal.aborted) sinceAbort(signal);
  else signal.addEventListener('abort', () => sinceAbort(signal), { once: true });
}

/**
 * Runs work that is better finished than interrupted. The signal passed to it aborts `graceMs` after `signal`, with the
 * same reason.
 */
export async function withGrace<Result>(
  signal: AbortSignal | undefined,
  graceMs: number,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = () => {
    if (!signal) return;
    const leftMs = Math.max(graceMs - sinceAbort(signal), Math.min(minGraceMs, graceMs));
    timer = setTimeout(() => controller.abort(signal.reason), leftMs);
  };
  if (signal?.aborted) begin();
  else signal?.addEventListener('abort', begin, { once: true });
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', begin);
  }
}
