import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, type Dispatcher, request } from 'undici';
import { AnswerTooLarge, readAnswer, redirectOf } from '../../util/answers.ts';
import { isObject } from '../../util/json.ts';
import { EngineError } from '../engine.ts';

/** Media type of protocol buffers. */
export const protobufType = 'application/x-protobuf';

/** Longest wait for the head of an answer. */
const answerMs = 120_000;

/** Longest answer: an adapter of a large model, or what a batch of samples has. */
const maxAnswerBytes = 4 * 2 ** 30;

const maxRedirects = 3;

/** Pauses between attempts, in milliseconds. Their sum is how long a request waits for a server that is away. */
const pauses = [100, 300, 1000, 3000];

/**
 * The server refused a request (`status` 4xx), lost what the request is about (404), or cannot be reached, has no room
 * (429), has lost a result (410) or answered with a fault (`status` null or 5xx). The code is `engine_away` for the last
 * four, else `engine_refused`.
 */
export class TinkerError extends EngineError {
  readonly status: number | null;

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    const isAway = status === null || status >= 500 || status === 429 || status === 410;
    super(isAway ? 'engine_away' : 'engine_refused', message, options);
    this.status = status;
  }
}

export interface ServerAnswer {
  type: string;
  body: Uint8Array;
}

export interface CallOptions {
  /** Whether a request may be sent again when it is not known whether the server got it. */
  repeat: 'harmless' | 'never';
  signal?: AbortSignal | undefined;
}

interface RequestOptions extends CallOptions {
  data?: { type: string; body: string | Uint8Array };
  /** Longest wait for the head of the answer; the request is not repeated after it. Default `answerMs`. */
  longestMs?: number;
}

/** Sends requests to the server, and sends them again while it is away. */
export class Connection {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #agent = new Agent({
    headersTimeout: answerMs,
    bodyTimeout: answerMs,
    connect: { timeout: 10_000 },
    // An HTTP/2 connection carries 100 requests at once: requests that wait for results would use them up.
    allowH2: false,
  });

  constructor(url: string, apiKey: string | undefined) {
    this.url = url.replace(/\/+$/, '');
    this.#headers = apiKey === undefined ? {} : { 'x-api-key': apiKey };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async request(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    options: RequestOptions,
  ): Promise<ServerAnswer> {
    const { repeat, signal, longestMs } = options;
    for (let attempt = 0; ; attempt++)
      try {
        return await this.#attempt(method, path, options);
      } catch (error) {
        signal?.throwIfAborted();
        const pause = pauses[attempt];
        const isPoll = longestMs !== undefined && (isTimeout(error) || isGone(error));
        const mayRepeat = !isPoll && (repeat === 'harmless' || wasNotTaken(error));
        if (
          !(error instanceof TinkerError) ||
          error.code !== 'engine_away' ||
          !mayRepeat ||
          pause === undefined
        )
          throw error;
        await sleep(pause, undefined, { signal });
      }
  }

  async #attempt(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    { data, signal, longestMs }: RequestOptions,
  ): Promise<ServerAnswer> {
    let status: number;
    let answer: ServerAnswer;
    try {
      const { statusCode, headers, body } = await this.#follow(path, {
        method,
        dispatcher: this.#agent,
        headers: { ...this.#headers, ...(data ? { 'content-type': data.type } : {}), accept: protobufType },
        ...(data ? { body: data.body } : {}),
        ...(signal ? { signal } : {}),
        ...(longestMs === undefined ? {} : { headersTimeout: longestMs }),
      });
      status = statusCode;
      answer = { type: String(headers['content-type'] ?? ''), body: await readAnswer(body, maxAnswerBytes) };
    } catch (cause) {
      if (cause instanceof TinkerError) throw cause;
      if (cause instanceof AnswerTooLarge)
        throw new TinkerError(400, `The training server ${this.url} answered ${path}: ${cause.message}.`, {
          cause,
        });
      throw new TinkerError(null, `The training server ${this.url} cannot be reached: ${cause}.`, { cause });
    }
    if (status < 300) return answer;
    throw this.refused(path, status, Buffer.from(answer.body).toString());
  }

  /** Sends a request. A download may be elsewhere: another server gets no key, and no request that changes something. */
  async #follow(
    path: string,
    options: { method: 'GET' | 'POST' | 'DELETE'; headers: Record<string, string>; dispatcher: Dispatcher },
  ): Promise<Dispatcher.ResponseData> {
    let url = new URL(`${this.url}/api/v1/${path}`);
    const { origin } = url;
    let { headers } = options;
    for (let redirects = 0; ; redirects++) {
      const answer = await request(url, { ...options, headers });
      const target = redirectOf(answer.statusCode, answer.headers.location, url);
      if (target === null) return answer;
      await answer.body.dump();
      if (options.method !== 'GET' || redirects === maxRedirects || !/^https?:$/.test(target.protocol))
        throw new TinkerError(
          400,
          `The training server ${this.url} redirects ${path} to ${target.origin}, which is not followed: the key is for the server that you name. If it is the right one, pass its address.`,
        );
      if (target.origin !== origin) headers = { accept: protobufType };
      url = target;
    }
  }

  /** The error for an answer whose status is not a success. */
  refused(path: string, status: number, text: string): TinkerError {
    const remedy = status === 401 || status === 403 ? '. Set TINKER_API_KEY to a key of that server.' : '';
    return new TinkerError(
      status,
      `The training server ${this.url} answered ${path} with ${status}: ${text.slice(0, 300)}${remedy}`,
    );
  }
}

const codeOf = (error: unknown): string =>
  error instanceof TinkerError && isObject(error.cause) ? String(error.cause.code) : '';

/** Whether the server was silent for as long as the request may wait. */
export const isTimeout = (error: unknown): boolean => codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT';

const isGone = (error: unknown): boolean => error instanceof TinkerError && error.status === 410;

/** Whether the server did not begin what was asked for. */
const wasNotTaken = (error: unknown): boolean =>
  ['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT'].includes(codeOf(error)) ||
  (error instanceof TinkerError && error.status === 429);
