import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { isObject } from '../../util/json.ts';
import { EngineError } from '../engine.ts';
import { passMessage, readPass, readSample, type TinkerDatum, type TinkerSample } from './messages.ts';

const protobufType = 'application/x-protobuf';

/** Longest wait for the head of an answer. The server answers a request for a result within a minute with 408. */
const answerMs = 120_000;

/** Pauses between attempts, in milliseconds. Their sum is how long a request waits for a server that is away. */
const pauses = [100, 300, 1000, 3000];

/**
 * The server refused a request (`status` 4xx), lost what the request is about (404), or cannot be reached or answered
 * with a fault (`status` null or 5xx). The code is `engine_away` for the last, else `engine_refused`.
 */
export class TinkerError extends EngineError {
  readonly status: number | null;

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(
      status === null || status >= 500 || status === 429 ? 'engine_away' : 'engine_refused',
      message,
      options,
    );
    this.status = status;
  }
}

export interface TinkerApiOptions {
  /** Such as `http://gpu-box:8001`. */
  url: string;
  /** Sent as `X-API-Key`, to servers that know one. Default: none. */
  apiKey?: string | undefined;
}

interface Answer {
  type: string;
  body: Uint8Array;
}

/** Whether a request may be sent again when it is not known whether the server got it. */
type Repeat = 'harmless' | 'never';

/**
 * The Tinker API 0.25: JSON, with protocol buffers for passes and results. A request begins an operation, whose result
 * is then waited for.
 */
export class TinkerApi {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #agent = new Agent({
    headersTimeout: answerMs,
    bodyTimeout: answerMs,
    connect: { timeout: 10_000 },
  });

  constructor({ url, apiKey }: TinkerApiOptions) {
    this.url = url.replace(/\/+$/, '');
    this.#headers = apiKey === undefined ? {} : { 'x-api-key': apiKey };
  }

  async get(path: string, signal?: AbortSignal): Promise<Record<string, unknown>> {
    return jsonOf(await this.#request('GET', path, { repeat: 'harmless', signal }));
  }

  /** A request that is answered at once. */
  async post(path: string, body: object, { repeat, signal }: CallOptions): Promise<Record<string, unknown>> {
    const data = { type: 'application/json', body: JSON.stringify(body) };
    return jsonOf(await this.#request('POST', path, { data, repeat, signal }));
  }

  /** Removes a file of the server; one that is not there is removed already. */
  async remove(path: string): Promise<void> {
    await this.#request('DELETE', path, { repeat: 'harmless' }).catch((error: unknown) => {
      if (!(error instanceof TinkerError && error.status === 404)) throw error;
    });
  }

  /** Begins an operation and waits for its result. */
  async operation(path: string, body: object, options: CallOptions): Promise<Record<string, unknown>> {
    return this.result(await this.post(path, body, options), options.signal);
  }

  /** The result of an operation that has begun. */
  async result(begun: Record<string, unknown>, signal?: AbortSignal): Promise<Record<string, unknown>> {
    return jsonOf(await this.#result(begun, signal));
  }

  /** Computes the log-probabilities of the targets of each datum; adds to the model's gradient unless `isForwardOnly`. */
  async pass(
    model: string,
    data: readonly TinkerDatum[],
    options: { loss: string; sequence: number; isForwardOnly: boolean; signal?: AbortSignal | undefined },
  ): Promise<Float32Array[]> {
    const begun = await this.#request('POST', 'forward_backward', {
      data: { type: protobufType, body: passMessage(model, data, options) },
      // A second pass would add its gradient a second time.
      repeat: options.isForwardOnly ? 'harmless' : 'never',
      signal: options.signal,
    });
    const logprobs = await this.#read(begun, readPass, options.signal);
    const wrong = data.findIndex(({ tokens }, index) => logprobs[index]?.length !== tokens.length);
    if (wrong >= 0 || logprobs.length !== data.length)
      throw this.#unknown(
        `a pass over ${data.length} sequences returned ${logprobs.length} with other lengths`,
      );
    return logprobs;
  }

  async sample(body: object, signal?: AbortSignal): Promise<TinkerSample> {
    const data = { type: 'application/json', body: JSON.stringify(body) };
    const begun = await this.#request('POST', 'asample', { data, repeat: 'harmless', signal });
    return this.#read(begun, readSample, signal);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #read<Result>(
    begun: Answer,
    read: (message: Uint8Array) => Result,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const { type, body } = await this.#result(jsonOf(begun), signal);
    if (!type.startsWith(protobufType)) throw this.#unknown(`a result of type ${type} came`);
    try {
      return read(body);
    } catch (error) {
      throw this.#unknown(`a result cannot be read: ${(error as Error).message}`);
    }
  }

  async #result(
    { request_id: id }: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    const data = { type: 'application/json', body: JSON.stringify({ request_id: String(id) }) };
    for (;;)
      try {
        return await this.#request('POST', 'retrieve_future', { data, repeat: 'harmless', signal });
      } catch (error) {
        // The operation is still under way.
        if (!(error instanceof TinkerError && error.status === 408)) throw error;
      }
  }

  async #request(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    { data, repeat, signal }: CallOptions & { data?: { type: string; body: string | Uint8Array } },
  ): Promise<Answer> {
    for (let attempt = 0; ; attempt++)
      try {
        return await this.#attempt(method, path, data, signal);
      } catch (error) {
        signal?.throwIfAborted();
        const pause = pauses[attempt];
        const mayRepeat = repeat === 'harmless' || wasNotSent(error);
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
    data: { type: string; body: string | Uint8Array } | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    let status: number;
    let answer: Answer;
    try {
      const { statusCode, headers, body } = await request(`${this.url}/api/v1/${path}`, {
        method,
        dispatcher: this.#agent,
        headers: { ...this.#headers, ...(data ? { 'content-type': data.type } : {}), accept: protobufType },
        ...(data ? { body: data.body } : {}),
        ...(signal ? { signal } : {}),
      });
      status = statusCode;
      answer = {
        type: String(headers['content-type'] ?? ''),
        body: new Uint8Array(await body.arrayBuffer()),
      };
    } catch (cause) {
      throw new TinkerError(null, `the training server ${this.url} cannot be reached: ${cause}`, { cause });
    }
    if (status < 300) return answer;
    const text = Buffer.from(answer.body).toString().slice(0, 300);
    throw new TinkerError(status, `the training server ${this.url} answered ${path} with ${status}: ${text}`);
  }

  #unknown(what: string): EngineError {
    return new EngineError(
      'engine_unsupported',
      `the training server ${this.url} does not speak the Tinker API 0.25: ${what}; use SkyRL 0.4.0`,
    );
  }
}

interface CallOptions {
  repeat: Repeat;
  signal?: AbortSignal | undefined;
}

const wasNotSent = (error: unknown): boolean =>
  error instanceof TinkerError &&
  isObject(error.cause) &&
  ['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT'].includes(String(error.cause.code));

function jsonOf({ body }: Answer): Record<string, unknown> {
  const value: unknown = JSON.parse(Buffer.from(body).toString());
  return isObject(value) ? value : {};
}
