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
 * Which failures of a call are retried.
 * - `harmless`: every transient failure, including invalid answers, because a repeat changes nothing more (reads,
 *   deletions, calls with an idempotency key).
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
  /** Called while waiting for an unavailable service, at each failure of a call except the first. */
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

const longestBackoffMs = 30_000;
/** Short, so that a service that is available again is noticed soon. */
const longestAwayPauseMs = 5_000;
/** If `Retry-After` is longer than this, the call is not retried and the caller gets the error. */
const longestRetryAfterMs = 60_000;

/**
 * Runs `attempt` until it succeeds, fails permanently, or is out of retries, and then throws the last error. Waits for
 * an unavailable service that answered before.
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

/** Whether the service is unreachable, directly or behind a proxy. It may be restarting and back soon. */
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
 * Whether the service may have acted on a failed call. It has not if it was not reached, refused the call (3xx, 4xx,
 * 501), or answered 503 with `Retry-After`.
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
  longestMs = longestBackoffMs,
): number {
  return (retryAfterMs ?? 0) + random * Math.min(longestMs, backoffMs * 2 ** failures);
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
