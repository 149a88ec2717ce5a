import { Readable } from 'node:stream';
import { context, propagation } from '@opentelemetry/api';
import type { Dispatcher } from 'undici';
import { Deadline } from '../util/deadline.ts';
import { OptionError } from '../util/option-error.ts';
import { sumOf } from '../util/sums.ts';
import { TimeSlices } from '../util/time-slices.ts';
import { warn } from '../util/warning.ts';
import { type BodyText, beginningText, wholeText, withinAnswer } from './answer-body.ts';
import type { Answer, Call, OpenAnswer, RequestBody } from './call.ts';
import { ConnectionPools } from './connection-pools.ts';
import { type CallFacts, type ClientLimits, isPage, isRequestError, RequestError } from './errors.ts';
import type { ServiceAddress } from './options.ts';
import { type Repeat, type RetryHooks, type RetryPolicy, withRetries } from './retry.ts';
import { statusError } from './status-error.ts';

interface TransportOptions {
  address: ServiceAddress;
  headers: Record<string, string>;
  retry: RetryPolicy;
  /** Deadline for connecting. */
  connectTimeoutMs: number;
  limits: ClientLimits;
  /** Whether the service has answered another client of the same address. */
  isKnown: boolean;
}

/** State of reading a body. */
interface Reading {
  call: Call;
  deadline: Deadline;
  facts: OpenAnswer['facts'];
  /** Whether each piece restarts the deadline, which then limits the silence between pieces. */
  restarts: boolean;
}

const unreached = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Sends calls over its own connection pools and retries them. */
export class Transport {
  readonly #options: TransportOptions;
  /** Answers that arrive together are spread over ticks, with the work that their callers do next. */
  readonly #slices = new TimeSlices();
  #pools: Promise<ConnectionPools> | undefined;
  #closed = false;
  /** Whether the service has answered, with a status and a content that are not a proxy's. */
  #isKnown: boolean;
  #hasWarned = false;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#isKnown = options.isKnown;
  }

  get retry(): RetryPolicy {
    return this.#options.retry;
  }

  /** Sends a call and parses its whole answer. An error of `parse` can be retried like any other failure. */
  send<Result>(call: Call, parse: (answer: Answer) => Result): Promise<Result> {
    return this.repeated(call.repeat, call, async () => {
      const open = await this.#attempt(call);
      const text = await open.text();
      if (this.#slices.over) await this.#slices.pause();
      return parse({ facts: open.facts, text });
    });
  }

  /** Sends a call and returns when its headers have arrived and `check` accepts it. Later failures are not retried. */
  open(call: Call, check?: (answer: OpenAnswer) => Promise<void>): Promise<OpenAnswer> {
    return this.repeated(call.repeat, call, async () => {
      const open = await this.#attempt(call);
      await check?.(open);
      return open;
    });
  }

  /** Runs work that calls the service, with the retries that `repeat` allows. */
  repeated<Result>(
    repeat: Repeat,
    { signal, onRetry }: Pick<RetryHooks, 'signal' | 'onRetry'>,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const awayOptions = {
      isKnown: () => this.#isKnown,
      onAway: (error: RequestError) => this.#warnUnavailable(error),
    };
    return withRetries(this.#options.retry, repeat, { signal, onRetry, ...awayOptions }, work);
  }

  /** Ends the calls in flight and closes the connections. */
  async close(): Promise<void> {
    this.#closed = true;
    const pools = await this.#openPools();
    await pools.destroy();
  }

  /** The connection pools, opened at the first call: opening them loads undici. */
  #openPools(): Promise<ConnectionPools> {
    this.#pools ??= ConnectionPools.open(this.#options.connectTimeoutMs);
    return this.#pools;
  }

  async #attempt(call: Call): Promise<OpenAnswer> {
    call.signal?.throwIfAborted();
    const { method, address = this.#options.address } = call;
    const path = address.prefix + call.path;
    const pools = await this.#openPools();
    const deadline = new Deadline(call.timeoutMs, call.signal);
    const { agent, release } = pools.take();
    let response: Dispatcher.ResponseData;
    try {
      response = await agent.request({
        origin: address.origin,
        path: path + queryText(call.query),
        method,
        headers: this.#headers(call),
        body: writableBody(call.body),
        signal: deadline.signal,
      });
    } catch (error) {
      deadline.clear();
      release();
      throw this.#failure(error, call, deadline, {
        method,
        path,
        status: null,
        requestId: null,
        origin: address.origin,
      });
    }
    const status = response.statusCode;
    const contentType = header(response, 'content-type') ?? '';
    const facts = {
      method,
      path,
      status,
      requestId: header(response, 'x-request-id'),
      origin: address.origin,
      contentType,
    };
    if (status < 500 && !isPage(contentType)) {
      this.#isKnown = true;
      this.#hasWarned = false;
    }
    // Also runs for an answer that is never read, when the deadline ends it.
    response.body.once('close', release);
    const length = Number(header(response, 'content-length') ?? Number.NaN);
    const contentLength = Number.isSafeInteger(length) ? length : null;
    const { limits } = this.#options;
    const pieces = (restarts: boolean) => this.#pieces(response, { call, deadline, facts, restarts });
    const isShort = contentLength !== null && contentLength <= limits.answerBytes;
    const readable = (): BodyText => ({ pieces: pieces(false), contentLength, facts, limits });
    if ((status < 200 || status > 299) && !call.accept?.includes(status)) {
      throw statusError(facts, await beginningText(readable()), {
        retryAfter: header(response, 'retry-after'),
        date: header(response, 'date'),
        location: header(response, 'location'),
      });
    }
    return {
      facts,
      contentType,
      contentLength,
      contentDisposition: header(response, 'content-disposition'),
      limits,
      body: pieces(call.idle ?? false),
      text: () =>
        isShort ? this.#text(response, { call, deadline, facts, restarts: false }) : wholeText(readable()),
      beginning: () => beginningText(readable()),
      answer: () => withinAnswer(readable()),
    };
  }

  #warnUnavailable(error: RequestError): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const { awayMs, retries } = this.#options.retry;
    const howLong = this.#isKnown ? `for ${awayMs / 1000} s (awayMs)` : `up to ${retries} times (retries)`;
    warn(
      'martingale_service_away',
      `The service at ${this.#options.address.origin} is unavailable. Retrying ${howLong}. ${error.message}`,
    );
  }

  #headers(call: Call): Record<string, string> {
    const headers = { ...this.#options.headers, ...lengthHeader(call.body), ...call.headers };
    propagation.inject(context.active(), headers);
    return headers;
  }

  /** A body whose length is known not to be too large. It is not read in pieces, which would take twice as long. */
  async #text(
    { body }: Dispatcher.ResponseData,
    { call, deadline, facts, restarts }: Reading,
  ): Promise<string> {
    try {
      return Buffer.from(await body.arrayBuffer()).toString('utf8');
    } catch (error) {
      throw this.#failure(error, call, deadline, facts, restarts);
    } finally {
      deadline.clear();
    }
  }

  async *#pieces(
    { body }: Dispatcher.ResponseData,
    { call, deadline, facts, restarts }: Reading,
  ): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of body) {
        if (restarts) deadline.restart();
        yield chunk;
      }
    } catch (error) {
      throw this.#failure(error, call, deadline, facts, restarts);
    } finally {
      deadline.clear();
    }
  }

  /** Converts a failure to the signal's reason or an error of this module. */
  #failure(
    error: unknown,
    call: Call,
    deadline: Deadline,
    facts: Omit<CallFacts, 'detail'>,
    isSilence = call.idle,
  ): unknown {
    if (call.signal?.aborted) return call.signal.reason;
    if (isRequestError(error)) return error;
    if (deadline.expired) {
      const what = isSilence
        ? `no data for ${call.timeoutMs} ms`
        : `no complete answer within ${call.timeoutMs} ms`;
      return new RequestError('timed_out', { ...facts, detail: what }, { option: call.timeoutOption });
    }
    const code = errorCode(error);
    // An invalid call, not a failed connection.
    if (code === 'UND_ERR_INVALID_ARG') {
      const message = `${facts.method} ${facts.path} cannot be sent: ${String(error)}.`;
      return new OptionError('invalid_client_option', message, { option: 'headers' });
    }
    const reason = error instanceof Error && error.message !== '' ? error.message : code;
    const cause =
      code === 'UND_ERR_CONNECT_TIMEOUT'
        ? `no connection within ${this.#options.connectTimeoutMs} ms (connectTimeoutMs)`
        : reason;
    const detail = unreached.has(code) ? `${facts.origin} cannot be reached: ${cause}` : cause;
    return new RequestError(
      this.#closed ? 'client_closed' : 'connection_failed',
      { ...facts, detail },
      { connected: !unreached.has(code), cause: error },
    );
  }
}

function writableBody(body: RequestBody | undefined): string | Uint8Array | Readable | null {
  return typeof body === 'string' || body instanceof Uint8Array || body === undefined
    ? (body ?? null)
    : Readable.from(body, { objectMode: false });
}

/** A body in pieces needs an explicit length. */
function lengthHeader(body: RequestBody | undefined): Record<string, string> {
  if (typeof body === 'string' || body instanceof Uint8Array || body === undefined) return {};
  return { 'content-length': String(sumOf(body, (piece) => piece.byteLength)) };
}

function header(response: Dispatcher.ResponseData, name: string): string | null {
  const value = response.headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

function queryText(query: Call['query']): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  return parameters.size === 0 ? '' : `?${parameters}`;
}

function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}
