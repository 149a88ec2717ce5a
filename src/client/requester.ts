import { randomUUID } from 'node:crypto';
import type { Answer, Call, RequestBody } from './call.ts';
import type { Dialect } from './dialect.ts';
import { ClientOptionError } from './errors.ts';
import type { ServiceAddress } from './options.ts';
import type { RetryNotice } from './retry.ts';
import type { Transport } from './transport.ts';

export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Deadline of each attempt in milliseconds. Default: the client's. */
  timeoutMs?: number | undefined;
  /** Called after each failed attempt that will be retried, before the pause. */
  onRetry?: ((notice: RetryNotice) => void) | undefined;
}

export interface ListOptions extends CallOptions {
  /** Id of the last item already seen; the list continues after it. */
  after?: string | undefined;
  /** Items per page, 1 to 100. Default 20. */
  limit?: number | undefined;
}

export interface IdempotentCallOptions extends CallOptions {
  /**
   * The service acts once per key and returns the first answer again for the same key and body, even after a restart.
   * Default: a random UUID for each call. Set and store a key if another process may repeat the call.
   */
  idempotencyKey?: string | undefined;
}

/** The transport and the client's settings, shared by all resources. */
export interface Requester {
  transport: Transport;
  dialect: Dialect;
  timeoutMs: number;
  /** Deadline of one attempt of a read. */
  readTimeoutMs: number;
  inferenceAddress: ServiceAddress;
}

/** Converts an answer to a result. @throws BadResponseError for an invalid answer. */
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
  /** Whether a retry is safe without a key, because the request alone determines the result. Default false. */
  isRepeatable?: boolean | undefined;
}

/** The characters that an Idempotency-Key header can carry. */
const writable = /^[\x20-\x7e]+$/;

/**
 * Sends a POST under `/preview/` with an idempotency key, which makes retries safe.
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

/** A path with percent-encoded ids, so that each id is one segment. */
export function path(parts: TemplateStringsArray, ...ids: string[]): string {
  return parts.reduce((text, part, index) => `${text}${encodeURIComponent(ids[index - 1] ?? '')}${part}`);
}
