import { StopStrings } from '../../language/chat/stop-strings.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import type { GenerateRequest, Generation } from '../engine.ts';
import { EngineError } from '../engine.ts';
import type { Adapter, Adapters } from './adapters.ts';
import { refuseSampling, unsupported } from './refusals.ts';
import type { TinkerApi } from './tinker-api.ts';

/** What samples: the server, and the text of its base model. */
export interface Sampling {
  api: TinkerApi;
  adapters: Adapters;
  tokenizer: Tokenizer;
  format: ChatFormat;
  contextLength: number;
}

/** Stop tokens in each request: the server compiles its program again for another number. */
const stopPlaces = 4;

/**
 * Samples one reply from the weights of a checkpoint, or of the base model for null. The server computes the whole reply
 * before it answers, so stop strings are found afterwards, and an aborted request is only not waited for.
 *
 * @throws EngineError (`unsupported_option`) that names what the server cannot do.
 */
export async function generate(
  { api, adapters, tokenizer, format, contextLength }: Sampling,
  checkpoint: string | null,
  request: GenerateRequest,
): Promise<Generation> {
  const { prompt, sampling, seed, stopStrings, stopTokens, signal } = request;
  refuseSampling(sampling, request.constraint !== null);
  if (request.topLogprobs > 0)
    throw unsupported('top_logprobs', 'the server tells the log-probabilities of the taken tokens only');
  const maxTokens = Math.min(request.maxTokens, contextLength - prompt.length);
  const ends = [...new Set([...(sampling.ignoreEnd ? [] : [format.endToken]), ...stopTokens])];
  const sample = async (adapter: Adapter) =>
    api.sample(
      {
        prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
        num_samples: 1,
        sampling_params: {
          max_tokens: Math.min(roundedUp(maxTokens), contextLength - prompt.length),
          temperature: sampling.temperature,
          stop: padded(ends),
          ...(seed === undefined ? {} : { seed: foldedSeed(seed) }),
        },
        sampling_session_id: await adapters.samplerOf(adapter),
        seq_id: adapter.sequence++,
      },
      signal,
    );
  const { replies, cachedTokens } = await adapters.withWeights(checkpoint, sample, signal);
  const [reply] = replies;
  if (!reply || reply.tokens.length === 0)
    throw new EngineError('engine_failed', 'the training server returned no tokens');
  const found = new StopStrings(stopStrings);
  let length = 0;
  let end: Pick<Generation, 'finishReason' | 'stop'> | undefined;
  for (const token of reply.tokens) {
    length++;
    if (token >= tokenizer.vocabularySize)
      throw new EngineError(
        'engine_failed',
        `the training server sampled token ${token}, which only pads the model's matrices: its tokenizer has ${tokenizer.vocabularySize} ids`,
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
      `the log-probability of token ${reply.tokens[wrong]} is ${logprobs[wrong]}: the model has diverged; lower the learning rate`,
    );
  return {
    tokens: [...reply.tokens.subarray(0, length)],
    logprobs,
    topLogprobs: logprobs.map(() => []),
    ...(end ?? { finishReason: 'length', stop: null }),
    cachedTokens,
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

/** The server takes seeds of 31 bits. */
function foldedSeed(seed: number | bigint): number {
  const bits = BigInt.asUintN(64, BigInt(typeof seed === 'number' ? Math.trunc(seed) : seed));
  return Number((bits ^ (bits >> 31n) ^ (bits >> 62n)) & 0x7fff_ffffn);
}
