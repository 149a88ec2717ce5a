import { randomUUID } from 'node:crypto';
import type { Page } from '../contract/index.ts';
import type { Answer, Call, RequestBody } from './call.ts';
import {
  type ClientOptions,
  checkHeader,
  type Dialect,
  projectHeaderOf,
  readOptions,
  type ServiceAddress,
} from './options.ts';
import { fetchedBy, type PageList, pageList } from './parse.ts';
import type { RetryNotice } from './retry.ts';
import { Transport } from './transport.ts';

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

export interface OrderedListOptions extends ListOptions {
  /** `asc`, the default: oldest first. `desc`: newest first. */
  order?: 'asc' | 'desc' | undefined;
}

export interface IdempotentCallOptions extends CallOptions {
  /**
   * The service acts once per key and returns the first answer again for the same key and body, even after a restart.
   * Default: a random UUID for each call. Set and store a key if another process may repeat the call.
   */
  idempotencyKey?: string | undefined;
}

/** Converts an answer to a result. @throws RequestError of code `bad_response` for an invalid answer. */
type Parse<Result> = (answer: Answer) => Result;

interface Posted {
  body: RequestBody;
  headers?: Record<string, string>;
  /** Whether a retry is safe without a key, because the request alone determines the result. Default false. */
  isRepeatable?: boolean | undefined;
  /** Whether a key is sent without one of the caller's. Default true. */
  isKeyed?: boolean;
}

/** What an Idempotency-Key header can carry. */
const writable = /^[\x20-\x7e]+$/;

/** The transport and the client's settings, shared by all resources. */
export class Requester {
  readonly transport: Transport;
  readonly dialect: Dialect;
  /** Deadline of one attempt of a read. */
  readonly readTimeoutMs: number;
  readonly inferenceAddress: ServiceAddress;
  readonly #timeoutMs: number;

  /** @throws OptionError */
  constructor(options: ClientOptions, isKnown: boolean) {
    const { address, connectTimeoutMs, retry, limits, ...settings } = readOptions(options);
    const { apiKey, project } = options;
    this.dialect = settings.dialect;
    this.readTimeoutMs = settings.readTimeoutMs;
    this.inferenceAddress = settings.inferenceAddress;
    this.#timeoutMs = settings.timeoutMs;
    const headers = {
      accept: 'application/json',
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      ...(project !== undefined && { [projectHeaderOf(this.dialect).toLowerCase()]: project }),
    };
    this.transport = new Transport({ address, headers, retry, connectTimeoutMs, limits, isKnown });
  }

  /** A call with the settings of its caller. */
  callOf(options: CallOptions, call: Pick<Call, 'method' | 'path' | 'repeat'> & Partial<Call>): Call {
    const { signal, onRetry, timeoutMs = this.#timeoutMs } = options;
    return { signal, onRetry, timeoutMs, timeoutOption: 'timeoutMs', ...call };
  }

  read<Result>(
    path: string,
    options: CallOptions,
    parse: Parse<Result>,
    more: Partial<Call> = {},
  ): Promise<Result> {
    const deadline =
      options.timeoutMs === undefined
        ? ({ timeoutMs: this.readTimeoutMs, timeoutOption: 'readTimeoutMs' } as const)
        : {};
    const call = { method: 'GET', path, repeat: 'harmless', ...deadline, ...more } as const;
    return this.transport.send(this.callOf(options, call), parse);
  }

  /** The pages of a list, with the query that `options` and `order` set. */
  pages<Item>(
    path: string,
    { after, limit, ...options }: ListOptions,
    parse: Parse<Page<Item>>,
    order?: 'asc' | 'desc',
  ): PageList<Item> {
    return pageList(after, (cursor) =>
      this.read(path, options, fetchedBy(parse), { query: { after: cursor, limit, order } }),
    );
  }

  remove<Result>(path: string, options: CallOptions, parse: Parse<Result>, body?: object): Promise<Result> {
    const call = this.callOf(options, { method: 'DELETE', path, repeat: 'harmless' });
    return this.transport.send(body ? { ...call, body: JSON.stringify(body) } : call, parse);
  }

  /**
   * Sends a POST under `/preview/` with an idempotency key, which makes retries safe.
   * @throws OptionError for a key that no header can carry.
   */
  async post<Result>(
    path: string,
    options: IdempotentCallOptions,
    parse: Parse<Result>,
    { body, headers, isRepeatable, isKeyed = true }: Posted,
  ): Promise<Result> {
    const { idempotencyKey = isKeyed ? randomUUID() : undefined } = options;
    if (idempotencyKey !== undefined) checkHeader('idempotencyKey', idempotencyKey, writable);
    const call = this.callOf(options, {
      method: 'POST',
      path,
      body,
      headers: { ...headers, ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }) },
      repeat: isRepeatable || this.dialect === 'standard' ? 'harmless' : 'untouched',
    });
    return this.transport.send(call, parse);
  }
}

/** A group of the client's methods. */
export abstract class Resource {
  protected readonly requester: Requester;

  constructor(requester: Requester) {
    this.requester = requester;
  }
}

/** A path with percent-encoded ids, so that each id is one segment. */
export function path(parts: TemplateStringsArray, ...ids: string[]): string {
  return parts.reduce((text, part, index) => `${text}${encodeURIComponent(ids[index - 1] ?? '')}${part}`);
}
