import { joinedFloats } from '../../../util/joined.ts';
import { finalNormTensor, layerTensors, projectionShape, projectionsOf } from '../checkpoint/tensors.ts';
import { type AttentionKind, decodingGraph, nextLayer } from '../graphs/decoding-graphs.ts';
import { PackedProducts, ranksTogether } from '../graphs/products.ts';
import type { Graph } from '../onnx/graph.ts';
import { adapterParts, type BaseWeights, headOf, weightOf } from '../runner/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { kindOf } from '../weights/architecture.ts';
import {
  type DecodedAdapter,
  type DecodingStage,
  type DecodingStages,
  isBeforeMixing,
  rotaryFeeds,
  split,
  takesPositions,
} from './decoding-stages.ts';

/** The stages of a model on the CPU. Its matrices are packed into sessions that all its adapters share. */
export async function packedStages(
  runtime: Runtime,
  base: BaseWeights,
  adapter: DecodedAdapter | null,
  attention: AttentionKind,
): Promise<DecodingStages> {
  const form = { attention, hasAdapters: adapter !== null };
  const { sessions: packing, release } = takePacked(runtime, base, form);
  const sessions = await packing.catch(async (error: unknown) => {
    await release();
    throw error;
  });
  const rotary = rotaryFeeds(runtime, base);
  const layers = Array.from({ length: base.architecture.layers }, (_, layer) =>
    split(adapter ? adapterPartFeeds(runtime, base, adapter, layer) : {}),
  );
  const scale = adapter && {
    lora_scale: runtime.float(Float32Array.of(adapter.lora.alpha / adapter.lora.rank), []),
  };
  const stages = sessions.map((session, index): DecodingStage => {
    const [layer, next] = [layers[index - 1], layers[index]];
    return {
      session,
      weights: { ...layer?.after, ...rotary[index], ...next?.before, ...scale },
      takesPositions: takesPositions(base.architecture, index),
    };
  });
  return { stages, release };
}

/** Graphs of packed weights differ in these settings. */
interface PackedForm {
  attention: AttentionKind;
  hasAdapters: boolean;
}

/** The sessions of a model's packed weights, and how many use them. */
interface Packed extends PackedForm {
  runtime: Runtime;
  base: BaseWeights;
  sessions: Promise<Session[]>;
  users: number;
}

const packed = new Set<Packed>();

/**
 * The sessions with a model's packed weights, until `release` is called. They are packed for the first user, which takes
 * about two seconds for a gigabyte, and freed by the last one.
 */
export function takePacked(
  runtime: Runtime,
  base: BaseWeights,
  form: PackedForm,
): { sessions: Promise<Session[]>; release: () => Promise<void> } {
  const known = [...packed].find(
    (one) =>
      one.runtime === runtime &&
      one.base === base &&
      one.attention === form.attention &&
      one.hasAdapters === form.hasAdapters,
  );
  const entry = known ?? { runtime, base, ...form, sessions: pack(runtime, base, form), users: 0 };
  packed.add(entry);
  entry.users++;
  // What could not be packed is tried again by the next user.
  entry.sessions.catch(() => packed.delete(entry));
  const release = async () => {
    if (--entry.users > 0) return;
    packed.delete(entry);
    for (const session of await entry.sessions.catch(() => [])) await session.release();
  };
  return { sessions: entry.sessions, release };
}

async function pack(
  runtime: Runtime,
  base: BaseWeights,
  { attention, hasAdapters }: PackedForm,
): Promise<Session[]> {
  const { architecture } = base;
  const sessions: Session[] = [];
  try {
    for (let index = 0; index <= architecture.layers; index++) {
      let own: PackedProducts['own'] = new Map();
      const products = (started: Graph) => {
        const packing = new PackedProducts(started, architecture, { hasAdapters });
        own = packing.own;
        return packing;
      };
      const graph = decodingGraph(
        architecture,
        { device: runtime.device, attention, products },
        index === 0 ? 'first' : index - 1,
      );
      const tensors = tensorsOf(base, index);
      const weights = Array.from(
        own,
        ([name, parts]) => [name, joined(parts.map((part) => tensors.get(part) as Float32Array))] as const,
      );
      sessions.push(await runtime.session(graph, new Map(weights)));
    }
  } catch (error) {
    for (const session of sessions) await session.release();
    throw error;
  }
  return sessions;
}

/** The tensors of a stage, by their names in its graph. */
function tensorsOf(base: BaseWeights, index: number): Map<string, Float32Array> {
  const { architecture } = base;
  const tensors = new Map<string, Float32Array>();
  for (const layer of [index - 1, index]) {
    if (layer < 0 || layer >= architecture.layers) continue;
    for (const { part, name } of layerTensors(architecture, layer)) {
      if (isBeforeMixing(part) !== (layer === index)) continue;
      tensors.set(layer === index ? `${nextLayer}${part}` : part, weightOf(base, name));
    }
  }
  tensors.set('norm', weightOf(base, finalNormTensor(architecture)));
  tensors.set('head', weightOf(base, headOf(architecture)));
  return tensors;
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const [first] = parts;
  return parts.length === 1 && first ? first : joinedFloats(parts);
}

/** An adapter's inputs of `PackedProducts`, with rank 0 for the projections that it does not change. */
function adapterPartFeeds(
  runtime: Runtime,
  { architecture }: BaseWeights,
  { lora, vector }: DecodedAdapter,
  layer: number,
): Feeds {
  const feeds: Feeds = {};
  for (const projection of projectionsOf(architecture, kindOf(architecture, layer))) {
    const [outputs, inputs] = projectionShape(architecture, projection);
    feeds[`${projection}.A`] = runtime.float(new Float32Array(0), [1, 0, inputs]);
    feeds[`${projection}.B`] = runtime.float(new Float32Array(0), [outputs, 0]);
  }
  if (!vector) return feeds;
  const { rank } = lora;
  const parts = Math.ceil(rank / ranksTogether);
  const part = parts === 1 ? rank : ranksTogether;
  for (const { input, offset, size, dimensions } of adapterParts(architecture, lora, layer)) {
    const values = vector.subarray(offset, offset + size);
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
