import { setTimeout as sleep } from 'node:timers/promises';
import {
  BadResponseError,
  ConnectionError,
  RateLimitError,
  RequestError,
  RequestRefusedError,
  ResponseTooLargeError,
  ServiceError,
  TimeoutError,
} from './errors.ts';

/**
 * Which failures of a call may be answered by repeating it.
 * `harmless`: a repeat changes nothing that the first call did not (reads, deletions, calls with an idempotency
 * key), so every passing failure, an answer that makes no sense included. `unanswered`: only those that say that
 * the call was turned away: the service was not reached, or it answered 408, 429 or 503. `untouched`: the same, but a
 * 503 counts only with a `Retry-After`; without one it may be a proxy's, which lost the service in the middle of the
 * call. `never`: none.
 */
export type Repeat = 'harmless' | 'unanswered' | 'untouched' | 'never';

export interface RetryPolicy {
  /** How often a call is repeated after its first attempt. */
  retries: number;
  /** The first pause is at most this long, each further one at most twice the one before. */
  backoffMs: number;
  /** For how long calls to a service that has answered before, and is away, are repeated all the same. */
  awayMs: number;
}

/** What repeats need to know beside the policy, and tell. */
export interface RetryHooks {
  signal?: AbortSignal | undefined;
  onRetry?: ((notice: RetryNotice) => void) | undefined;
  /** Whether the service has been there before: where it never was, it is not waited for. Default: it was not. */
  isKnown?: () => boolean;
  /** Hears of a service that is away and waited for, at each failure of a call but the first. */
  onAway?: (error: RequestError) => void;
}

/** A call that failed in passing and is going to be repeated. */
export interface RetryNotice {
  /** HTTP status that it was answered with; null where it was not. */
  status: number | null;
  /** Which attempt failed, counted from 1. */
  attempt: number;
  /** The pause before the next, in milliseconds. */
  delayMs: number;
}

const longestBackoffMs = 30_000;
/** A service that comes back is found soon. */
const longestAwayPauseMs = 5_000;
/** A service that asks for a longer pause than this is taken at its word: the error goes to the caller. */
const longestRetryAfterMs = 60_000;

/**
 * Runs `attempt` until it succeeds, fails for good, or has been repeated often enough; throws its last error. A service
 * that was there and is away is waited for.
 */
export async function withRetries<Result>(
  policy: RetryPolicy,
  repeat: Repeat,
  { signal, onRetry, isKnown = () => false, onAway }: RetryHooks,
  attempt: () => Promise<Result>,
): Promise<Result> {
  let awaySince: number | null = null;
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!mayRepeat(error, repeat)) throw error;
      const away = isAway(error) && isKnown() ? error : null;
      awaySince = away && (awaySince ?? performance.now());
      const isAwaited = awaySince !== null && performance.now() - awaySince < policy.awayMs;
      if (failures >= policy.retries && !isAwaited) throw error;
      if (away && isAwaited && failures > 0) onAway?.(away);
      const longestMs = away ? longestAwayPauseMs : longestBackoffMs;
      const delayMs = retryDelayMs(failures, policy.backoffMs, retryAfterOf(error), Math.random(), longestMs);
      const status = error instanceof RequestError ? error.status : null;
      onRetry?.({ status, attempt: failures + 1, delayMs });
      await pause(delayMs, signal);
    }
  }
}

/** A service that does not answer, or of which a proxy says so: one that starts anew is back soon. */
function isAway(error: unknown): error is RequestError {
  if (error instanceof ServiceError) return [502, 503, 504].includes(error.status ?? 0);
  return error instanceof ConnectionError && error.status === null;
}

function mayRepeat(error: unknown, repeat: Repeat): boolean {
  if (repeat === 'never' || (retryAfterOf(error) ?? 0) > longestRetryAfterMs) return false;
  if (error instanceof RateLimitError) return true;
  if (error instanceof RequestRefusedError) return error.status === 408;
  if (error instanceof ServiceError) {
    if (repeat === 'harmless') return error.status !== 501;
    return error.status === 503 && (repeat === 'unanswered' || error.retryAfterMs !== null);
  }
  if (error instanceof ConnectionError) {
    return error.code !== 'client_closed' && (repeat === 'harmless' || !error.connected);
  }
  return repeat === 'harmless' && (error instanceof TimeoutError || error instanceof BadResponseError);
}

/**
 * Whether the service may have acted on a call that failed. It has not where it was not reached, refused the call
 * (3xx, 4xx, 501), or turned it away with 503 and `Retry-After`.
 */
export function mayHaveActed(error: unknown): error is RequestError {
  if (error instanceof ServiceError)
    return error.status !== 501 && (error.status !== 503 || error.retryAfterMs === null);
  if (error instanceof ConnectionError) return error.connected || error.code === 'client_closed';
  return (
    error instanceof TimeoutError ||
    error instanceof BadResponseError ||
    error instanceof ResponseTooLargeError
  );
}

function retryAfterOf(error: unknown): number | null {
  return error instanceof RateLimitError || error instanceof ServiceError ? error.retryAfterMs : null;
}

/**
 * Pause before the repeat after the failure of this index (0 for the first): exponential backoff with full jitter
 * (aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter), after what the service asked for,
 * so that many callers told to wait do not come back at once.
 *
 * @param random In [0, 1).
 */
export function retryDelayMs(
  failures: number,
  backoffMs: number,
  retryAfterMs: number | null,
  random: number,
  longestMs = longestBackoffMs,
): number {
  return (retryAfterMs ?? 0) + random * Math.min(longestMs, backoffMs * 2 ** failures);
}

/**
 * Milliseconds that a `Retry-After` header asks for, be it seconds or a date; null where it is absent or neither.
 *
 * @param date The response's `Date`: a date is held against the service's own clock, which ours need not agree with.
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

/** Waits; rejects with the signal's reason when aborted. */
export async function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(milliseconds, undefined, signal ? { signal } : {});
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}
