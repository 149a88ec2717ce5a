import type { Tensor } from 'onnxruntime-common';
import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { checkpointDecodingGraphs, nextLayer } from '../graphs/checkpoint-decoding-graphs.ts';
import { type AdapterVector, adapterFeeds, type LoraBase, weightFeeds } from '../lora/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';

/** A graph of a decoding step, with the weights that are its inputs. */
export interface DecodingStage {
  session: Session;
  weights: Feeds;
  /** Whether `positions` is an input too. */
  takesPositions: boolean;
}

/**
 * The stages of a step in their order: up to the first attention, then one for each layer, the last with the head. The
 * checkpoint's weights are read where they are in memory; `adapter` is null for the base model.
 */
export async function decodingStages(
  runtime: Runtime,
  base: LoraBase,
  adapter: AdapterVector | null,
): Promise<DecodingStage[]> {
  const { architecture } = base;
  const lora = adapter
    ? { targets: adapter.lora.targets, scale: adapter.lora.alpha / adapter.lora.rank }
    : { targets: [], scale: 1 };
  const graphs = checkpointDecodingGraphs(architecture, lora, runtime.device);
  const first = await runtime.session(graphs.first);
  const middle = graphs.middle && (await runtime.session(graphs.middle));
  const last = await runtime.session(graphs.last);
  const { embedding, rotary, end } = sharedFeeds(runtime, base);
  const layers = Array.from({ length: architecture.layers }, (_, layer) => {
    const weights = weightFeeds(runtime, base, layer);
    const added = adapter ? adapterFeeds(runtime, architecture, adapter, layer) : {};
    return split({ ...weights, ...added });
  });
  const stageOf = (session: Session, ...weights: (Feeds | undefined)[]): DecodingStage => ({
    session,
    weights: Object.assign({}, ...weights),
    takesPositions: session !== last,
  });
  return [
    stageOf(first, { embedding }, rotary, layers[0]?.before),
    ...layers.map(({ after }, layer) => {
      const next = layers[layer + 1];
      return next && middle ? stageOf(middle, after, rotary, next.before) : stageOf(last, after, end);
    }),
  ];
}

const beforeAttention = ['input_layernorm', 'q_proj', 'k_proj', 'v_proj', 'q_norm', 'k_norm'];

/** Splits a layer's weights into those before its attention, under their names there, and those after it. */
function split(feeds: Feeds): { before: Feeds; after: Feeds } {
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

function sharedFeeds(runtime: Runtime, base: LoraBase): { embedding: Tensor; rotary: Feeds; end: Feeds } {
  const { vocabularySize, width, headWidth, contextLength, positions, tiedEmbeddings } = base.architecture;
  if (positions === 'learned') throw new Error('a checkpoint has rotary positions');
  const tables = tablesOf.get(base) ?? rotaryTables(positions, headWidth, contextLength);
  tablesOf.set(base, tables);
  const table = (values: Float32Array) => runtime.constant(values, [contextLength, headWidth / 2]);
  const weight = (name: string) => base.weights.get(name) as Float32Array;
  const matrix = (name: string) => runtime.constant(weight(name), [vocabularySize, width]);
  const embedding = matrix('model.embed_tokens.weight');
  return {
    embedding,
    rotary: { cosines: table(tables.cosines), sines: table(tables.sines) },
    end: {
      norm: runtime.constant(weight('model.norm.weight'), [width]),
      head: tiedEmbeddings ? embedding : matrix('lm_head.weight'),
    },
  };
}
