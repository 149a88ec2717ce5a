import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { projectionName, projectionShape } from '../checkpoint/tensors.ts';
import { normsOf, projectionsOf } from '../graphs/lora-graphs.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import { adapterShapes, type LoraSettings } from './adapter-vector.ts';
import type { Branches } from './shared-prefixes.ts';

/** A checkpoint's weights by their names in the files. */
export interface LoraBase {
  architecture: Architecture;
  weights: ReadonlyMap<string, Float32Array>;
}

/** A LoRA adapter as one flat vector: see `adapterShapes`. */
export interface AdapterVector {
  lora: LoraSettings;
  vector: Float32Array;
}

/** A tensor of a checkpoint by its name in the files. */
export function weightOf({ weights }: LoraBase, name: string): Float32Array {
  const data = weights.get(name);
  if (!data) throw new Error(`the checkpoint has no tensor ${name}`);
  return data;
}

/** A layer's frozen weights as inputs of the graphs: each under the name of its projection or norm, or `<name>.bias`. */
export function weightFeeds(runtime: Runtime, base: LoraBase, layer: number): Feeds {
  const feeds = vectorFeeds(runtime, base, layer);
  for (const projection of projectionsOf(base.architecture)) {
    const data = weightOf(base, `${projectionName(layer, projection)}.weight`);
    feeds[projection] = runtime.constant(data, projectionShape(base.architecture, projection));
  }
  return feeds;
}

/** Those of `weightFeeds` that are no matrices: norms and biases. */
export function vectorFeeds(runtime: Runtime, base: LoraBase, layer: number): Feeds {
  const { headWidth, width, attentionBias } = base.architecture;
  const feeds: Feeds = {};
  const feed = (input: string, name: string, size: number) => {
    feeds[input] = runtime.constant(weightOf(base, name), [size]);
  };
  if (attentionBias)
    for (const projection of ['q_proj', 'k_proj', 'v_proj'] as const) {
      const [outputs] = projectionShape(base.architecture, projection);
      feed(`${projection}.bias`, `${projectionName(layer, projection)}.bias`, outputs);
    }
  for (const norm of normsOf(base.architecture)) {
    const isPerHead = norm === 'q_norm' || norm === 'k_norm';
    const name = `model.layers.${layer}.${isPerHead ? 'self_attn.' : ''}${norm}.weight`;
    feed(norm, name, isPerHead ? headWidth : width);
  }
  return feeds;
}

/** The adapter's tensors in a layer, each with its name in the graphs: `<projection>.A` or `<projection>.B`. */
export function adapterParts(architecture: Architecture, lora: LoraSettings, layer: number) {
  const { targets } = lora;
  const count = targets.length * 2;
  return adapterShapes(architecture, lora)
    .slice(layer * count, (layer + 1) * count)
    .map((shape, index) => ({ ...shape, input: `${targets[index >> 1]}.${index % 2 === 0 ? 'A' : 'B'}` }));
}

/** A layer's part of an adapter's flat vector as inputs of the graphs. */
export function adapterFeeds(
  runtime: Runtime,
  architecture: Architecture,
  { lora, vector }: AdapterVector,
  layer: number,
): Feeds {
  return Object.fromEntries(
    adapterParts(architecture, lora, layer).map(({ input, offset, size, dimensions }) => [
      input,
      runtime.float(vector.subarray(offset, offset + size), dimensions),
    ]),
  );
}

/** Padded rows that run together. */
export interface PaddedTokens {
  sequences: readonly (readonly number[])[];
  /** Padded length. */
  time: number;
  /** Where the sequences that share a row part. Default: each row is one sequence. */
  branches?: readonly Branches[];
}

/** Far below any attention score. */
const masked = -1e9;

/** What all layers get of a batch: shapes, positions and the mask of attention. */
export function batchFeeds(
  runtime: Runtime,
  { positions: kind, heads, keyValueHeads, headWidth }: Architecture,
  { sequences, time, branches = [] }: PaddedTokens,
): Feeds {
  const batch = sequences.length;
  const parting = branches.some(({ starts }) => starts.length > 1);
  const masks = parting ? batch : 1;
  const visible = new Float32Array(masks * time * time);
  const positions = new BigInt64Array(batch * time);
  for (let row = 0; row < batch; row++) {
    placeRow(positions.subarray(row * time, (row + 1) * time), branches[row]);
    if (row < masks) maskRow(visible.subarray(row * time * time), time, branches[row]);
  }
  const shape = (count: number) =>
    runtime.integer(BigInt64Array.from([batch, time, count, headWidth], BigInt), [4]);
  const feeds: Feeds = {
    query_shape: shape(heads),
    key_shape: shape(keyValueHeads),
    visible: runtime.float(visible, [masks, 1, time, time]),
    positions: runtime.integer(positions, [batch, time]),
  };
  if (kind === 'learned') return feeds;
  const { cosines, sines } = rotaryTables(kind, headWidth, time);
  const table = (data: Float32Array) => runtime.float(data, [time, headWidth / 2]);
  return { ...feeds, cosines: table(cosines), sines: table(sines) };
}

const whole: Branches = { shared: 0, starts: [0] };

/** Writes the position of each token in its sequence. Padding continues the last sequence. */
function placeRow(positions: BigInt64Array, { shared, starts }: Branches = whole): void {
  for (const at of positions.keys()) positions[at] = BigInt(at);
  for (const [sequence, start] of starts.entries())
    for (let at = start; at < (starts[sequence + 1] ?? positions.length); at++)
      positions[at] = BigInt(shared + at - start);
}

/** Masks what a token must not attend to [time, time]: later tokens, and tokens of other sequences. */
function maskRow(visible: Float32Array, time: number, { shared, starts }: Branches = whole): void {
  for (let at = 0; at < time; at++) visible.fill(masked, at * time + at + 1, (at + 1) * time);
  for (const [sequence, start] of starts.entries())
    for (let at = start; at < (starts[sequence + 1] ?? time); at++)
      visible.fill(masked, at * time + shared, at * time + start);
}
