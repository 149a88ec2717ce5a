import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { EngineError } from '../engine.ts';
import {
  type CallOptions,
  Connection,
  isTimeout,
  protobufType,
  type ServerAnswer,
  TinkerError,
} from './connection.ts';
import { passMessage, readPass, readSample, type TinkerDatum, type TinkerSample } from './tinker-protobuf.ts';

/**
 * Longest wait for a result in one request. SkyRL holds such a request for five minutes; proxies between are less patient.
 */
const pollMs = 45_000;

/** Longest wait for a result. */
const resultMs = 3_600_000;

/** Pause before a result is asked for again, where the server says so at once. */
const tryAgainMs = 100;

interface TinkerApiOptions {
  /** Such as `http://gpu-box:8001`. */
  url: string;
  /** Sent as `X-API-Key`, to servers that know one. Default: none. */
  apiKey?: string | undefined;
  /** Longest wait for a result in one request, in milliseconds. Default 45,000. */
  pollMs?: number;
  /** Longest wait for a result from a server that answers, in milliseconds. Default 3,600,000. */
  longestResultMs?: number;
}

/**
 * The Tinker API 0.25: JSON, with protocol buffers for passes and results. A request begins an operation, whose result
 * is then waited for.
 */
export class TinkerApi {
  readonly #connection: Connection;
  readonly #pollMs: number;
  readonly #longestResultMs: number;

  constructor({ url, apiKey, pollMs: longest = pollMs, longestResultMs = resultMs }: TinkerApiOptions) {
    this.#connection = new Connection(url, apiKey);
    this.#pollMs = longest;
    this.#longestResultMs = longestResultMs;
  }

  get url(): string {
    return this.#connection.url;
  }

  async get(path: string, signal?: AbortSignal): Promise<Record<string, unknown>> {
    return jsonOf(await this.#connection.request('GET', path, { repeat: 'harmless', signal }));
  }

  /** A request that is answered at once. */
  async post(path: string, body: object, { repeat, signal }: CallOptions): Promise<Record<string, unknown>> {
    const data = { type: 'application/json', body: JSON.stringify(body) };
    return jsonOf(await this.#connection.request('POST', path, { data, repeat, signal }));
  }

  /** A file of the server. */
  async download(path: string, signal?: AbortSignal): Promise<Uint8Array> {
    return (await this.#connection.request('GET', path, { repeat: 'harmless', signal })).body;
  }

  /** Removes a file of the server; one that is not there is removed already. */
  async remove(path: string): Promise<void> {
    await this.#connection.request('DELETE', path, { repeat: 'harmless' }).catch((error: unknown) => {
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
    const begun = await this.#connection.request('POST', 'forward_backward', {
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
    for (let isFirst = true; ; isFirst = false) {
      const begun = await this.#connection.request('POST', 'asample', { data, repeat: 'harmless', signal });
      try {
        return await this.#read(begun, readSample, signal);
      } catch (error) {
        if (!(error instanceof TinkerError && error.status === 410 && isFirst)) throw error;
      }
    }
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  async #read<Result>(
    begun: ServerAnswer,
    read: (message: Uint8Array) => Result,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const { type, body } = await this.#result(jsonOf(begun), signal);
    if (!type.startsWith(protobufType)) throw this.#unknown(`a result of type ${type} came`);
    try {
      return read(body);
    } catch (error) {
      throw this.#unknown(`a result cannot be read: ${messageOf(error)}`);
    }
  }

  /**
   * Asks for a result until it is there. Answers of the hosted service, as its public client reads them: `try_again` with
   * the state of the queue, and an error with status 200.
   */
  async #result(
    { request_id: id }: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<ServerAnswer> {
    const data = { type: 'application/json', body: JSON.stringify({ request_id: String(id) }) };
    const longestMs = this.#pollMs;
    const started = performance.now();
    for (;;) {
      if (performance.now() - started > this.#longestResultMs)
        throw new TinkerError(
          null,
          `The training server ${this.url} has not ended request ${id} within ${this.#longestResultMs / 60_000} minutes.`,
        );
      try {
        const answer = await this.#connection.request('POST', 'retrieve_future', {
          ...{ data, repeat: 'harmless', signal, longestMs },
        });
        if (answer.type.startsWith(protobufType)) return answer;
        const { type, error } = jsonOf(answer);
        if (error !== undefined) throw this.#connection.refused('retrieve_future', 400, String(error));
        if (type !== 'try_again') return answer;
        await sleep(tryAgainMs, undefined, { signal });
      } catch (error) {
        // The operation is still under way.
        if (error instanceof TinkerError && error.status === 408) continue;
        if (!isTimeout(error)) throw error;
        // Either it is, or the server is silent.
        await this.get('get_server_capabilities', signal);
      }
    }
  }

  #unknown(what: string): EngineError {
    return new EngineError(
      'engine_unsupported',
      `The training server ${this.url} does not speak the Tinker API 0.25: ${what}. Use SkyRL 0.4.0.`,
    );
  }
}

function jsonOf({ body }: ServerAnswer): Record<string, unknown> {
  const value: unknown = JSON.parse(Buffer.from(body).toString());
  return isObject(value) ? value : {};
}
