import { randomUUID } from 'node:crypto';
import type { Answer, Call, RequestBody } from './call.ts';
import type { Dialect } from './dialect.ts';
import { ClientOptionError } from './errors.ts';
import type { ServiceAddress } from './options.ts';
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

export interface ListOptions extends CallOptions {
  /** Id of the last item already seen; the list goes on behind it. */
  after?: string | undefined;
  /** Items of a page, 1 to 100. Default 20. */
  limit?: number | undefined;
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

/** Makes a result of an answer. Throws a `BadResponseError` for one that it does not understand. */
export type Parse<Result> = (answer: Answer) => Result;

export function read<Result>(
  { transport, readTimeoutMs }: Requester,
  path: string,
  options: CallOptions,
  parse: Parse<Result>,
  more: Partial<Call> = {},
): Promise<Result> {
  const call: Call = {
    method: 'GET',
    path,
    repeat: 'harmless',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? readTimeoutMs,
    timeoutOption: options.timeoutMs === undefined ? 'readTimeoutMs' : 'timeoutMs',
    ...more,
  };
  return transport.send(call, parse);
}

export function remove<Result>(
  { transport, timeoutMs }: Requester,
  path: string,
  options: CallOptions,
  parse: Parse<Result>,
  body?: object,
): Promise<Result> {
  const call: Call = {
    method: 'DELETE',
    path,
    repeat: 'harmless',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? timeoutMs,
    timeoutOption: 'timeoutMs',
    ...(body && { body: JSON.stringify(body) }),
  };
  return transport.send(call, parse);
}

export interface Posted {
  body: RequestBody;
  headers?: Record<string, string>;
  /** Whether the service comes to the same by the request alone, so that a repeat needs no key. Default false. */
  isRepeatable?: boolean | undefined;
}

/** What an Idempotency-Key header can carry. */
const writable = /^[\x20-\x7e]+$/;

/**
 * A POST under `/preview/`, which an idempotency key makes harmless to repeat.
 * @throws ClientOptionError for a key that no header can carry.
 */
export async function post<Result>(
  { transport, dialect, timeoutMs }: Requester,
  path: string,
  options: IdempotentCallOptions,
  parse: Parse<Result>,
  { body, headers, isRepeatable }: Posted,
): Promise<Result> {
  const { idempotencyKey = randomUUID() } = options;
  if (!writable.test(idempotencyKey))
    throw new ClientOptionError('idempotencyKey is empty or has characters that no header can carry.');
  const call: Call = {
    method: 'POST',
    path,
    body,
    headers: { ...headers, 'idempotency-key': idempotencyKey },
    repeat: isRepeatable || dialect === 'standard' ? 'harmless' : 'untouched',
    signal: options.signal,
    onRetry: options.onRetry,
    timeoutMs: options.timeoutMs ?? timeoutMs,
    timeoutOption: 'timeoutMs',
  };
  return transport.send(call, parse);
}

/** A path with the ids written so that they stay one segment each. */
export function path(parts: TemplateStringsArray, ...ids: string[]): string {
  return parts.reduce((text, part, index) => `${text}${encodeURIComponent(ids[index - 1] ?? '')}${part}`);
}
