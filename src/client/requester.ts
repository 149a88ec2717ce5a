import { randomUUID } from 'node:crypto';
import type { ServiceAddress } from './base-url.ts';
import type { Answer, Call } from './call.ts';
import type { Dialect } from './dialect.ts';
import type { RetryNotice } from './retry.ts';
import type { Transport } from './transport.ts';

export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Deadline of each attempt in milliseconds, in place of the client's. */
  timeoutMs?: number | undefined;
  /** Hears of each attempt that failed in passing, before the pause that comes before the next. */
  onRetry?: ((notice: RetryNotice) => void) | undefined;
}

export interface IdempotentCallOptions extends CallOptions {
  /**
   * Under the same key and with the same body the service acts once and gives the first answer again, also after
   * a restart. Default: a random UUID for each call. Give one, and keep it, where a call is to be repeated by
   * another process.
   */
  idempotencyKey?: string | undefined;
}

/** What the resources share: the transport, and what the client was told about the service. */
export interface Requester {
  transport: Transport;
  dialect: Dialect;
  timeoutMs: number;
  /** Deadline of an attempt of a read. */
  readTimeoutMs: number;
  inferenceAddress: ServiceAddress;
}

export function read(
  { transport, readTimeoutMs }: Requester,
  path: string,
  options: CallOptions,
  more: Partial<Call> = {},
): Promise<Answer> {
  return transport.send({
    method: 'GET',
    path,
    repeat: 'harmless',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? readTimeoutMs,
    timeoutOption: options.timeoutMs === undefined ? 'readTimeoutMs' : 'timeoutMs',
    ...more,
  });
}

export function remove(
  { transport, timeoutMs }: Requester,
  path: string,
  options: CallOptions,
  body?: object,
): Promise<Answer> {
  return transport.send({
    method: 'DELETE',
    path,
    repeat: 'harmless',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? timeoutMs,
    timeoutOption: 'timeoutMs',
    ...(body && { body: JSON.stringify(body) }),
  });
}

/** A POST under `/preview/`, which an idempotency key makes harmless to repeat. */
export function post(
  { transport, dialect, timeoutMs }: Requester,
  path: string,
  body: string | Uint8Array,
  options: IdempotentCallOptions,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return transport.send({
    method: 'POST',
    path,
    body,
    headers: { ...headers, 'idempotency-key': options.idempotencyKey ?? randomUUID() },
    repeat: dialect === 'standard' ? 'harmless' : 'untouched',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? timeoutMs,
    timeoutOption: 'timeoutMs',
  });
}

/** A path with the ids written so that they stay one segment each. */
export function path(parts: TemplateStringsArray, ...ids: string[]): string {
  return parts.reduce((text, part, index) => `${text}${encodeURIComponent(ids[index - 1] ?? '')}${part}`);
}
