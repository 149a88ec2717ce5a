import { randomInt } from 'node:crypto';
import { type ChatFormat, StopStrings, type Tokenizer } from '../../language/index.ts';
import { untilAborted } from '../../util/deadline.ts';
import type { GenerateRequest, Generation, Weights } from '../engine.ts';
import { EngineError } from '../engine.ts';
import type { Adapter, Adapters } from './adapters.ts';
import { refuseSampling, unsupported } from './refusals.ts';
import type { TinkerApi } from './tinker-api.ts';
import type { TinkerReply } from './tinker-protobuf.ts';

/** What samples: the server, and the text of its base model. */
interface Sampling {
  api: TinkerApi;
  adapters: Adapters;
  tokenizer: Tokenizer;
  format: ChatFormat;
  contextLength: number;
  /** Path on the server of a checkpoint's weights; null for the base model. */
  pathOf: (weights: Weights) => Promise<string | null>;
  /** Aborted when the engine is closed. */
  closed: AbortSignal;
}

/** Stop tokens in each request: the server compiles its program again for another number. */
const stopPlaces = 4;

/** Seeds of the server are smaller. */
const seeds = 2 ** 31;

/** A reply that is asked for. */
interface Call {
  request: GenerateRequest;
  /** The server's seed; undefined for any. */
  seed: number | undefined;
  resolve: (generation: Generation) => void;
  reject: (error: unknown) => void;
}

/**
 * Samples replies on the server. Requests are sent at once: the server batches waiting requests itself. The choices of
 * one chat are one request: the server samples choice i with the request's seed + i, as the service does, so each has
 * the tokens that it would have alone. Calls with unrelated seeds, such as of different rollouts, stay apart: in one
 * request they would get other tokens, and all would wait for the longest.
 */
export class Sampler {
  readonly #sampling: Sampling;
  /** Calls of this tick. */
  #calls: Call[] = [];

  constructor(sampling: Sampling) {
    this.#sampling = sampling;
  }

  /**
   * Samples one reply. The server computes the whole reply before it answers, so stop strings are found afterwards, and an
   * aborted request is only not waited for.
   *
   * @throws EngineError (`unsupported_option`) that names what the server cannot do.
   */
  async generate(request: GenerateRequest): Promise<Generation> {
    refuseSampling(request.sampling, request.constraint !== null);
    if (request.topLogprobs > 0)
      throw unsupported('top_logprobs', 'the server returns log-probabilities of the sampled tokens only');
    const seed = request.seed === undefined ? undefined : serverSeed(request.seed);
    return new Promise((resolve, reject) => {
      if (this.#calls.length === 0) setImmediate(() => this.#send());
      this.#calls.push({ request, seed, resolve, reject });
    });
  }

  #send(): void {
    const calls = this.#calls;
    this.#calls = [];
    for (let from = 0, to = 1; from < calls.length; from = to++) {
      while (to < calls.length && continues(calls[to - 1] as Call, calls[to] as Call)) to++;
      void this.#sample(calls.slice(from, to) as [Call, ...Call[]]);
    }
  }

  async #sample(calls: [Call, ...Call[]]): Promise<void> {
    const [{ request, seed }] = calls;
    const { api, adapters, format, contextLength, pathOf, closed } = this.#sampling;
    const { prompt, sampling, stopTokens } = request;
    const signal = request.signal ? AbortSignal.any([request.signal, closed]) : closed;
    const room = contextLength - prompt.length;
    const ends = [...new Set([...(sampling.ignoreEnd ? [] : [format.endToken]), ...stopTokens])];
    const sample = async (adapter: Adapter) =>
      api.sample(
        {
          prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
          num_samples: calls.length,
          sampling_params: {
            max_tokens: Math.min(roundedUp(Math.min(request.maxTokens, room)), room),
            temperature: sampling.temperature,
            stop: padded(ends),
            // The server fails with seeds that leave their range.
            seed: seed ?? randomInt(seeds - calls.length),
          },
          sampling_session_id: await untilAborted(adapters.samplerOf(adapter), signal),
          seq_id: adapter.sequence++,
        },
        signal,
      );
    try {
      const checkpoint = await pathOf(request.weights);
      const { replies, cachedTokens } = await adapters.withWeights(checkpoint, sample, signal);
      for (const [index, call] of calls.entries())
        try {
          call.resolve({ ...readReply(replies[index], request, this.#sampling), cachedTokens });
        } catch (error) {
          call.reject(error);
        }
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }
}

/** Whether a call is the next choice of the same chat, with the next seed. */
function continues(last: Call, next: Call): boolean {
  const fields = ['prompt', 'weights', 'sampling', 'maxTokens', 'stopTokens', 'signal'] as const;
  return (
    fields.every((field) => last.request[field] === next.request[field]) &&
    next.seed === (last.seed === undefined ? undefined : last.seed + 1)
  );
}

/** The tokens of a reply up to its end, which may be a stop string. */
function readReply(
  reply: TinkerReply | undefined,
  { prompt, maxTokens: asked, sampling, stopStrings, stopTokens }: GenerateRequest,
  { tokenizer, format, contextLength }: Sampling,
): Omit<Generation, 'cachedTokens'> {
  if (!reply || reply.tokens.length === 0)
    throw new EngineError('engine_failed', 'The training server returned no tokens.');
  const maxTokens = Math.min(asked, contextLength - prompt.length);
  const found = new StopStrings(stopStrings);
  let length = 0;
  let end: Pick<Generation, 'finishReason' | 'stop'> | undefined;
  for (const token of reply.tokens) {
    length++;
    if (token >= tokenizer.vocabularySize)
      throw new EngineError(
        'engine_failed',
        `The training server sampled token ${token}, which only pads the model's matrices: its tokenizer has ${tokenizer.vocabularySize} ids.`,
      );
    const stop = found.find(tokenizer.bytes(token));
    if (token === format.endToken && !sampling.ignoreEnd) end = { finishReason: 'stop', stop: null };
    else if (stopTokens.includes(token)) end = { finishReason: 'stop', stop: token };
    else if (stop !== null) end = { finishReason: 'stop', stop };
    else if (length === maxTokens) end = { finishReason: 'length', stop: null };
    if (end) break;
  }
  const logprobs = [...reply.logprobs.subarray(0, length)];
  const wrong = logprobs.findIndex((logprob) => !Number.isFinite(logprob));
  if (wrong >= 0)
    throw new EngineError(
      'engine_failed',
      `The log-probability of token ${reply.tokens[wrong]} is ${logprobs[wrong]}: the model has diverged. Lower the learning rate.`,
    );
  return {
    tokens: [...reply.tokens.subarray(0, length)],
    logprobs,
    topLogprobs: logprobs.map(() => []),
    ...(end ?? { finishReason: 'length', stop: null }),
  };
}

/** The next of 16, 24, 32, 48, 64, ... The server compiles its program again for each number. */
function roundedUp(tokens: number): number {
  let size = 16;
  while (size < tokens) size = Number.isInteger(Math.log2(size)) ? size * 1.5 : (size / 3) * 4;
  return size;
}

/** Repeats the last stop token up to a multiple of `stopPlaces`. */
function padded(tokens: number[]): number[] {
  const last = tokens.at(-1);
  if (last === undefined) return tokens;
  const places = Math.ceil(tokens.length / stopPlaces) * stopPlaces;
  return [...tokens, ...new Array<number>(places - tokens.length).fill(last)];
}

/** The seed modulo 2^31 - 1, so that seeds that follow each other stay so, except at a multiple of it. */
function serverSeed(seed: number | bigint): number {
  const modulus = BigInt(seeds - 1);
  const rest = BigInt(typeof seed === 'number' ? Math.trunc(seed) : seed) % modulus;
  return Number(rest < 0n ? rest + modulus : rest);
}
