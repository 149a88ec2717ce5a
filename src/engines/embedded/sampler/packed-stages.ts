import { layerTensorName, projectionShape, projectionsOf } from '../checkpoint/tensors.ts';
import { checkpointDecodingGraph, nextLayer } from '../graphs/checkpoint-decoding-graphs.ts';
import { PackedProducts, ranksTogether } from '../graphs/products.ts';
import {
  type AdapterVector,
  adapterParts,
  type BaseWeights,
  headOf,
  vectorFeeds,
  weightOf,
} from '../runner/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { kindOf } from '../weights/architecture.ts';
import {
  beforeMixing,
  type DecodingStage,
  type DecodingStages,
  sharedFeeds,
  split,
  takesPositions,
} from './decoding-stages.ts';

/**
 * The stages of a checkpoint with an adapter on the CPU, or without one if it is null. The checkpoint's weights are packed
 * into sessions that all adapters share.
 */
export async function packedStages(
  runtime: Runtime,
  base: BaseWeights,
  adapter: AdapterVector | null,
): Promise<DecodingStages> {
  const { sessions: packing, release } = takePacked(runtime, base);
  const sessions = await packing.catch(async (error: unknown) => {
    await release();
    throw error;
  });
  const scale = adapter ? adapter.lora.alpha / adapter.lora.rank : 1;
  const { embedding, rotary, norm } = sharedFeeds(runtime, base);
  const layers = Array.from({ length: base.architecture.layers }, (_, layer) =>
    split({ ...vectorFeeds(runtime, base, layer), ...adapterPartFeeds(runtime, base, adapter, layer) }),
  );
  const lora_scale = runtime.float(Float32Array.of(scale), []);
  const stages = sessions.map((session, index): DecodingStage => {
    const [layer, next] = [layers[index - 1], layers[index]];
    return {
      session,
      weights: {
        ...(index === 0 ? { embedding } : {}),
        ...layer?.after,
        ...(next ? { ...rotary[index], ...next.before } : { norm }),
        lora_scale,
      },
      takesPositions: takesPositions(base.architecture, index),
    };
  });
  return { stages, release };
}

/** The sessions of a checkpoint's packed weights, and how many use them. */
interface Packed {
  sessions: Promise<Session[]>;
  users: number;
}

const packed = new WeakMap<Runtime, Map<BaseWeights, Packed>>();

/**
 * The sessions with a checkpoint's packed weights, until `release` is called. They are packed for the first user, which
 * takes about two seconds for a gigabyte, and freed by the last one.
 */
export function takePacked(
  runtime: Runtime,
  base: BaseWeights,
): { sessions: Promise<Session[]>; release: () => Promise<void> } {
  const ofRuntime = packed.get(runtime) ?? new Map<BaseWeights, Packed>();
  packed.set(runtime, ofRuntime);
  const entry = ofRuntime.get(base) ?? { sessions: pack(runtime, base), users: 0 };
  ofRuntime.set(base, entry);
  entry.users++;
  // What could not be packed is tried again by the next user.
  entry.sessions.catch(() => ofRuntime.get(base) === entry && ofRuntime.delete(base));
  const release = async () => {
    if (--entry.users > 0) return;
    if (ofRuntime.get(base) === entry) ofRuntime.delete(base);
    for (const session of await entry.sessions.catch(() => [])) await session.release();
  };
  return { sessions: entry.sessions, release };
}

async function pack(runtime: Runtime, base: BaseWeights): Promise<Session[]> {
  const { architecture } = base;
  const sessions: Session[] = [];
  try {
    for (let index = 0; index <= architecture.layers; index++) {
      const graph = checkpointDecodingGraph(
        architecture,
        runtime.device,
        (started) => new PackedProducts(started, architecture),
        index === 0 ? 'first' : index - 1,
      );
      sessions.push(await runtime.session(graph, matricesOf(base, index)));
    }
  } catch (error) {
    for (const session of sessions) await session.release();
    throw error;
  }
  return sessions;
}

/** The matrices of a stage, by their names in its graph. */
function matricesOf(base: BaseWeights, index: number): Map<string, Float32Array> {
  const { layers } = base.architecture;
  const matrices = new Map<string, Float32Array>();
  for (const layer of [index - 1, index]) {
    if (layer < 0 || layer >= layers) continue;
    const isNext = layer === index;
    for (const projection of projectionsOf(base.architecture, kindOf(base.architecture, layer))) {
      if (beforeMixing.includes(projection) !== isNext) continue;
      const weight = weightOf(base, `${layerTensorName(base.architecture, layer, projection)}.weight`);
      matrices.set(isNext ? `${nextLayer}${projection}` : projection, weight);
    }
  }
  if (index === layers) matrices.set('head', weightOf(base, headOf(base.architecture)));
  return matrices;
}

/** An adapter's inputs of `PackedProducts`, with rank 0 for the projections that it does not change. */
function adapterPartFeeds(
  runtime: Runtime,
  { architecture }: BaseWeights,
  adapter: AdapterVector | null,
  layer: number,
): Feeds {
  const feeds: Feeds = {};
  for (const projection of projectionsOf(architecture, kindOf(architecture, layer))) {
    const [outputs, inputs] = projectionShape(architecture, projection);
    feeds[`${projection}.A`] = runtime.float(new Float32Array(0), [1, 0, inputs]);
    feeds[`${projection}.B`] = runtime.float(new Float32Array(0), [outputs, 0]);
  }
  if (!adapter) return feeds;
  const { rank } = adapter.lora;
  const parts = Math.ceil(rank / ranksTogether);
  const part = parts === 1 ? rank : ranksTogether;
  for (const { input, offset, size, dimensions } of adapterParts(architecture, adapter.lora, layer)) {
    const values = adapter.vector.subarray(offset, offset + size);
    const [rows, columns] = dimensions as [number, number];
    if (input.endsWith('.A'))
      feeds[input] = runtime.float(withRanks(values, 1, rank * columns, parts * part * columns), [
        parts,
        part,
        columns,
      ]);
    else feeds[input] = runtime.float(withRanks(values, rows, rank, parts * part), [rows, parts * part]);
  }
  return feeds;
}

/** Rows of `length` numbers with zeros up to `padded` numbers. */
function withRanks(values: Float32Array, rows: number, length: number, padded: number): Float32Array {
  if (length === padded) return values;
  const result = new Float32Array(rows * padded);
  for (let row = 0; row < rows; row++)
    result.set(values.subarray(row * length, (row + 1) * length), row * padded);
  return result;
}
