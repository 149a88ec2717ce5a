import type { Tensor } from 'onnxruntime-common';
import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { embeddingTensor, finalNormTensor } from '../checkpoint/tensors.ts';
import { nextLayer } from '../graphs/checkpoint-decoding-graphs.ts';
import { type BaseWeights, headOf, weightOf } from '../runner/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { type Architecture, isLocal, kindOf } from '../weights/architecture.ts';

/** Whether a stage projects the states for the attention of a layer, which needs their positions. */
export const takesPositions = (architecture: Architecture, next: number): boolean =>
  next < architecture.layers && kindOf(architecture, next) === 'attention';

/** A graph of a decoding step, with the weights that are its inputs. */
export interface DecodingStage {
  session: Session;
  weights: Feeds;
  /** Whether `positions` is an input too. */
  takesPositions: boolean;
}

/** The stages of a step in their order: up to the first layer's mixing, then one for each layer, the last with the head. */
export interface DecodingStages {
  stages: readonly DecodingStage[];
  release(): Promise<void>;
}

/** What a layer has before its attention or convolution. */
export const beforeMixing: readonly string[] = [
  'input_layernorm',
  'q_proj',
  'k_proj',
  'v_proj',
  'q_norm',
  'k_norm',
  'in_proj',
];

/** Splits a layer's weights into those before its attention or convolution, under their names there, and those after it. */
export function split(feeds: Feeds): { before: Feeds; after: Feeds } {
  const before: Feeds = {};
  const after: Feeds = {};
  for (const [name, tensor] of Object.entries(feeds))
    if (beforeMixing.some((part) => name === part || name.startsWith(`${part}.`)))
      before[`${nextLayer}${name}`] = tensor;
    else after[name] = tensor;
  return { before, after };
}

/** The tables of rotary positions take a while to compute, and all adapters of a checkpoint share them. */
const tablesOf = new WeakMap<BaseWeights, Record<'global' | 'local', ReturnType<typeof rotaryTables>>>();

function makeTables({ positions, local, headWidth, contextLength }: Architecture) {
  if (positions === 'learned') throw new Error('a checkpoint has rotary positions');
  const global = rotaryTables(positions, headWidth, contextLength);
  return { global, local: local ? rotaryTables(local.positions, headWidth, contextLength) : global };
}

interface SharedFeeds {
  embedding: Tensor;
  /** The tables of rotary positions of each layer; none for a convolution. */
  rotary: readonly Feeds[];
  norm: Tensor;
  head: Tensor;
}

/** Inputs that all adapters of a checkpoint share. */
export function sharedFeeds(runtime: Runtime, base: BaseWeights): SharedFeeds {
  const { architecture } = base;
  const { vocabularySize, width, layers, headWidth, contextLength, tiedEmbeddings } = architecture;
  const tables = tablesOf.get(base) ?? makeTables(architecture);
  tablesOf.set(base, tables);
  const table = (values: Float32Array) => runtime.constant(values, [contextLength, headWidth / 2]);
  const feeds = ({ cosines, sines }: ReturnType<typeof rotaryTables>): Feeds => ({
    cosines: table(cosines),
    sines: table(sines),
  });
  const global = feeds(tables.global);
  const local = tables.local === tables.global ? global : feeds(tables.local);
  const matrix = (name: string) => runtime.constant(weightOf(base, name), [vocabularySize, width]);
  const embedding = matrix(embeddingTensor);
  return {
    embedding,
    rotary: Array.from({ length: layers }, (_, layer) => {
      if (kindOf(architecture, layer) === 'convolution') return {};
      return isLocal(architecture, layer) ? local : global;
    }),
    norm: runtime.constant(weightOf(base, finalNormTensor(architecture)), [width]),
    head: tiedEmbeddings ? embedding : matrix(headOf(architecture)),
  };
}
