import { setTimeout as sleep } from 'node:timers/promises';
import { isRequestError, type RequestError } from './errors.ts';

/**
 * Which failures of a call are retried.
 * - `harmless`: every transient failure, including invalid answers unless their status refuses the call (4xx), because a
 *   repeat changes nothing more (reads, deletions, calls with an idempotency key).
 * - `unanswered`: only failures that show that the call was rejected: the service was not reached, or it answered 408,
 *   429 or 503.
 * - `untouched`: as `unanswered`, but a 503 only with `Retry-After`. Without it the 503 may come from a proxy that lost
 *   the service during the call.
 * - `never`: none.
 */
export type Repeat = 'harmless' | 'unanswered' | 'untouched' | 'never';

export interface RetryPolicy {
  /** Maximum number of attempts after the first. */
  retries: number;
  /** Maximum length of the first pause in milliseconds. It doubles with each retry. */
  backoffMs: number;
  /** How long calls to an unavailable service that answered before are retried, in milliseconds, beyond `retries`. */
  awayMs: number;
}

/** State and callbacks of retries. */
export interface RetryHooks {
  signal?: AbortSignal | undefined;
  onRetry?: ((notice: RetryNotice) => void) | undefined;
  /** Whether the service has answered before. If not, it is not waited for. Default: false. */
  isKnown?: () => boolean;
  /**
   * Called while waiting for an unavailable service: at each failure of a call, except the first if the service has
   * answered before.
   */
  onAway?: (error: RequestError) => void;
}

/** A failed attempt of a call that will be retried. */
export interface RetryNotice {
  /** HTTP status of the answer; null if there was none. */
  status: number | null;
  /** Number of the failed attempt, from 1. */
  attempt: number;
  /** Pause before the next attempt, in milliseconds. */
  delayMs: number;
}

const maxBackoffMs = 30_000;
/** Short, so that a service that is available again is noticed soon. */
const maxAwayPauseMs = 5_000;
/** If `Retry-After` is longer than this, the call is not retried and the caller gets the error. */
const maxRetryAfterMs = 60_000;
/** Earlier failures of a call that are kept. A service that is away for minutes may give hundreds. */
const mostEarlier = 100;

/**
 * Runs `attempt` until it succeeds, fails permanently, or is out of retries, and then throws the last error, which has
 * the earlier ones. Waits for an unavailable service that answered before.
 */
export async function withRetries<Result>(
  policy: RetryPolicy,
  repeat: Repeat,
  { signal, onRetry, isKnown = () => false, onAway }: RetryHooks,
  attempt: () => Promise<Result>,
): Promise<Result> {
  let awaySince: number | null = null;
  const earlier: RequestError[] = [];
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!isRequestError(error)) throw error;
      if (!mayRepeat(error, repeat)) throw error.after(earlier, failures);
      // A page from an address at which no service has answered yet: it is the wrong address.
      if (error.code === 'bad_response' && !isKnown()) throw error.after(earlier, failures);
      const { status, retryAfterMs } = error;
      const isServiceAway = isAway(error) && isKnown();
      awaySince = isServiceAway ? (awaySince ?? performance.now()) : null;
      const isAwaited = awaySince !== null && performance.now() - awaySince < policy.awayMs;
      if (failures >= policy.retries && !isAwaited) throw error.after(earlier, failures);
      if (isAwaited ? failures > 0 : isAway(error)) onAway?.(error);
      const maxMs = isServiceAway ? maxAwayPauseMs : maxBackoffMs;
      const delayMs = retryDelayMs(failures, policy.backoffMs, retryAfterMs, Math.random(), maxMs);
      onRetry?.({ status, attempt: failures + 1, delayMs });
      earlier.push(error);
      if (earlier.length > mostEarlier) earlier.shift();
      await pause(delayMs, signal);
    }
  }
}

/** Whether the service is unreachable, directly or behind a proxy. It may be restarting and back soon. */
function isAway({ code, status }: RequestError): boolean {
  if (code === 'service_failed') return [502, 503, 504].includes(status ?? 0);
  return code === 'connection_failed' && status === null;
}

function mayRepeat({ code, status, retryAfterMs, connected }: RequestError, repeat: Repeat): boolean {
  if (repeat === 'never' || (retryAfterMs ?? 0) > maxRetryAfterMs) return false;
  switch (code) {
    case 'rate_limited':
      return true;
    case 'request_refused':
      return status === 408;
    case 'service_failed':
      if (repeat === 'harmless') return status !== 501;
      return status === 503 && (repeat === 'unanswered' || retryAfterMs !== null);
    case 'connection_failed':
      return repeat === 'harmless' || !connected;
    case 'bad_response':
      return repeat === 'harmless' && !isRefusal(status);
    default:
      return repeat === 'harmless' && code === 'timed_out';
  }
}

/** Whether the status says that the call was refused: 3xx or 4xx. */
const isRefusal = (status: number | null): boolean => status !== null && status >= 300 && status < 500;

/**
 * Whether the service may have acted on a failed call. It has not if it was not reached, refused the call (3xx, 4xx,
 * 501), or answered 503 with `Retry-After`.
 */
export function mayHaveActed(error: unknown): error is RequestError {
  if (!isRequestError(error) || isRefusal(error.status)) return false;
  const { code, status, retryAfterMs, connected } = error;
  if (code === 'service_failed') return status !== 501 && (status !== 503 || retryAfterMs === null);
  if (code === 'connection_failed') return connected;
  return ['client_closed', 'timed_out', 'bad_response', 'response_too_large'].includes(code);
}

/**
 * Pause before the next attempt in milliseconds: `Retry-After` plus exponential backoff with full jitter
 * (aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter), so that callers with the same
 * `Retry-After` do not return at the same time.
 *
 * @param failures Number of earlier failures of the call, 0 after the first.
 * @param random In [0, 1).
 */
export function retryDelayMs(
  failures: number,
  backoffMs: number,
  retryAfterMs: number | null,
  random: number,
  maxMs = maxBackoffMs,
): number {
  return (retryAfterMs ?? 0) + random * Math.min(maxMs, backoffMs * 2 ** failures);
}

/**
 * Parses a `Retry-After` header of seconds or a date to milliseconds; null if it is absent or invalid.
 *
 * @param date The response's `Date` header. A date is compared with the service's clock, which may differ from ours.
 */
export function parseRetryAfter(header: string | null, date: string | null = null): number | null {
  if (header === null || header.trim() === '') return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const until = Date.parse(header);
  if (Number.isNaN(until)) return null;
  const now = Date.parse(date ?? '');
  return Math.max(0, until - (Number.isNaN(now) ? Date.now() : now));
}

/** Waits. @throws the signal's reason when aborted. */
export async function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(milliseconds, undefined, signal ? { signal } : {});
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}
