/** How long a short call may go on after the run has been stopped. */
export const stopGraceMs = 10_000;

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
    timer = setTimeout(() => controller.abort(signal?.reason), graceMs);
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
