/** How long the calls that are better ended than interrupted may go on, all together, after the run has been stopped. */
export const stopGraceMs = 10_000;

/** What each of them gets at the least, however long those before it took. */
const leastGraceMs = 1000;

/** When a signal was first seen aborted. */
const abortedAt = new WeakMap<AbortSignal, number>();

function sinceAbort(signal: AbortSignal): number {
  const at = abortedAt.get(signal) ?? performance.now();
  abortedAt.set(signal, at);
  return performance.now() - at;
}

/** From the abort of this signal on, all grace is counted; without it, from when one first asks for some. */
export function countGrace(signal: AbortSignal): void {
  if (signal.aborted) sinceAbort(signal);
  else signal.addEventListener('abort', () => sinceAbort(signal), { once: true });
}

/**
 * Runs work that is better ended than interrupted: its signal aborts, with the reason of `signal`, only when
 * `graceMs` have passed after `signal` did.
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
    const leftMs = Math.max(graceMs - sinceAbort(signal), Math.min(leastGraceMs, graceMs));
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
