import type { Tensor } from 'onnxruntime-common';
import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { embeddingTensor, finalNormTensor } from '../checkpoint/tensors.ts';
import { nextLayer } from '../graphs/checkpoint-decoding-graphs.ts';
import { headOf, type LoraBase, weightOf } from '../lora/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';

/** A graph of a decoding step, with the weights that are its inputs. */
export interface DecodingStage {
  session: Session;
  weights: Feeds;
  /** Whether `positions` is an input too. */
  takesPositions: boolean;
}

/** The stages of a step in their order: up to the first attention, then one for each layer, the last with the head. */
export interface DecodingStages {
  stages: readonly DecodingStage[];
  release(): Promise<void>;
}

/** What a layer has before its attention. */
export const beforeAttention: readonly string[] = [
  'input_layernorm',
  'q_proj',
  'k_proj',
  'v_proj',
  'q_norm',
  'k_norm',
];

/** Splits a layer's weights into those before its attention, under their names there, and those after it. */
export function split(feeds: Feeds): { before: Feeds; after: Feeds } {
  const before: Feeds = {};
  const after: Feeds = {};
  for (const [name, tensor] of Object.entries(feeds))
    if (beforeAttention.some((part) => name === part || name.startsWith(`${part}.`)))
      before[`${nextLayer}${name}`] = tensor;
    else after[name] = tensor;
  return { before, after };
}

/** The tables of rotary positions take a while to compute, and all adapters of a checkpoint share them. */
const tablesOf = new WeakMap<LoraBase, ReturnType<typeof rotaryTables>>();

interface SharedFeeds {
  embedding: Tensor;
  rotary: Feeds;
  norm: Tensor;
  head: Tensor;
}

/** Inputs that all adapters of a checkpoint share. */
export function sharedFeeds(runtime: Runtime, base: LoraBase): SharedFeeds {
  const { vocabularySize, width, headWidth, contextLength, positions, tiedEmbeddings } = base.architecture;
  if (positions === 'learned') throw new Error('a checkpoint has rotary positions');
  const tables = tablesOf.get(base) ?? rotaryTables(positions, headWidth, contextLength);
  tablesOf.set(base, tables);
  const table = (values: Float32Array) => runtime.constant(values, [contextLength, headWidth / 2]);
  const matrix = (name: string) => runtime.constant(weightOf(base, name), [vocabularySize, width]);
  const embedding = matrix(embeddingTensor);
  return {
    embedding,
    rotary: { cosines: table(tables.cosines), sines: table(tables.sines) },
    norm: runtime.constant(weightOf(base, finalNormTensor), [width]),
    head: tiedEmbeddings ? embedding : matrix(headOf(base.architecture)),
  };
}
