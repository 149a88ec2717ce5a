import { vi } from 'vitest';
import { BaseModels } from '../../../../src/engines/embedded/base-models.ts';
import { builtInLanguage } from '../../../../src/engines/embedded/built-in/built-in-language.ts';
import { ConversationCodec } from '../../../../src/engines/embedded/conversation-codec.ts';
import type { AttentionKind } from '../../../../src/engines/embedded/graphs/decoding-graphs.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import type { BaseWeights } from '../../../../src/engines/embedded/runner/layer-feeds.ts';
import { loadRuntime, type Runtime } from '../../../../src/engines/embedded/runtime.ts';
import type { Answer } from '../../../../src/engines/embedded/sampler/answer.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { Pool } from '../../../../src/engines/embedded/sampler/pool.ts';
import { PrefixMemory } from '../../../../src/engines/embedded/sampler/prefix-cache.ts';
import { Sequence, type SequenceOptions } from '../../../../src/engines/embedded/sampler/sequence.ts';
import {
  type Architecture,
  fullyTrained,
  vectorLength,
} from '../../../../src/engines/embedded/weights/architecture.ts';
import type { Constraint, Grammar } from '../../../../src/language/grammar/constraint.ts';
import { plainSampling } from '../../../../src/learning/index.ts';

export const architecture = fullyTrained({
  vocabularySize: 512,
  width: 32,
  layers: 2,
  heads: 2,
  contextLength: 256,
  previousTokens: 2,
});

export const codec = new ConversationCodec(new Map(), builtInLanguage());
/** The tiny models only. */
export const models = new BaseModels([]);
export const sources = { models, codecOf: () => codec };
export const runtime = await loadRuntime('auto', 1);
/** The runtime, with a count of its sessions, of which creating number `failing` fails. */
export function watched(failing = 0) {
  const counts = { made: 0, live: 0 };
  const session: Runtime['session'] = async (model, weights) => {
    if (++counts.made === failing) throw new Error('no memory');
    const made = await runtime.session(model, weights);
    counts.live++;
    return {
      run: made.run,
      release: async () => {
        counts.live--;
        await made.release();
      },
    };
  };
  return { runtime: { ...runtime, session }, counts };
}
/** Default scheduling. */
export const ordinary = { priority: 0, cacheSalt: null };

/** Random weights, so that every layer matters and any error in the cache shows. */
function randomModel(architecture: Architecture): BaseWeights {
  const random = new Random(17);
  const length = vectorLength(trainedShapes(architecture, 'all'));
  return modelOf(
    architecture,
    Float32Array.from({ length }, () => 0.3 * random.normal()),
  );
}

/** A model with all its tensors in one vector. */
export function modelOf(architecture: Architecture, vector: Float32Array): BaseWeights {
  const tensors = trainedShapes(architecture, 'all').map(
    ({ name, offset, size }) => [name, vector.subarray(offset, offset + size)] as const,
  );
  return { architecture, weights: new Map(tensors) };
}

export const encode = (text: string) => codec.tokenizer.encode(text);
export const textOf = (grammar: Grammar): Constraint => ({
  grammar,
});

export async function sequenceOf(
  options: Partial<SequenceOptions> & { constraint?: Constraint; seed?: number } = {},
): Promise<Sequence> {
  const compiled = options.constraint && (await codec.compiler.compile(options.constraint));
  return new Sequence(
    {
      prompt: encode('hello'),
      sampling: plainSampling,
      maxTokens: 10,
      stopStrings: [],
      stopTokens: [],
      topLogprobs: 0,
      ...options,
    },
    { codec, constraint: compiled?.start() ?? null, random: new Random(options.seed ?? 1) },
  );
}

/** A pool that records all inputs of its decoder. `tokensPerRun`: most tokens of prompts in a run. */
export async function openPool({
  largestBatch = 64,
  prefixCacheBytes = 2 ** 22,
  contextLength = architecture.contextLength,
  attention = 'flat' as AttentionKind,
  tokensPerRun = 3_000,
} = {}) {
  const model = randomModel({ ...architecture, contextLength });
  const decoder = await Decoder.create(runtime, model, null, attention);
  const run = vi.spyOn(decoder, 'step');
  vi.spyOn(decoder, 'elementsPerToken', 'get').mockReturnValue(4_000_000 / tokensPerRun);
  const pool = new Pool(decoder, model.architecture, {
    largestBatch,
    prefixes: new PrefixMemory(prefixCacheBytes),
  });
  return { decoder, pool, run };
}

/** Steps until all requests are done; returns the answers in order of completion. */
export async function drain(pool: Pool): Promise<Answer[]> {
  const ended = new Set<Answer>();
  while (!pool.idle) for (const answer of await pool.step()) if (answer.ended) ended.add(answer);
  return [...ended];
}

/** Logits after the last of some tokens, computed without a cache. */
export async function createModel(): Promise<(tokens: readonly number[]) => Promise<Float32Array>> {
  const decoder = await Decoder.create(runtime, randomModel(architecture), null);
  return async (tokens) => {
    decoder.cache.clear();
    decoder.cache.reserve(1, tokens.length, 0);
    const { logits } = await decoder.run(0, [{ tokens, start: 0, end: tokens.length }]);
    return logits.slice(0, architecture.vocabularySize);
  };
}
