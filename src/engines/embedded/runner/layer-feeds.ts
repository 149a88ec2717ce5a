import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import {
  embeddingTensor,
  headTensor,
  kernelPart,
  layerTensorName,
  layerTensors,
  projectionsOf,
} from '../checkpoint/tensors.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import { type Architecture, isLocal, kindOf, type TensorShape } from '../weights/architecture.ts';
import { adapterShapes, type LoraSettings, type Trained, trainedShapes } from './adapter-vector.ts';
import { convolutionFeeds } from './convolution-feeds.ts';
import type { Selection } from './selection.ts';
import { type Branches, type PaddedTokens, whole } from './shared-prefixes.ts';

/** A checkpoint's weights by their names in the files. */
export interface BaseWeights {
  architecture: Architecture;
  weights: ReadonlyMap<string, Float32Array>;
}

/** The matrix of the head, in the files. */
export const headOf = ({ tiedEmbeddings }: Architecture): string =>
  tiedEmbeddings ? embeddingTensor : headTensor;

/** A tensor of a checkpoint by its name in the files. */
export function weightOf({ weights }: BaseWeights, name: string): Float32Array {
  const data = weights.get(name);
  if (!data) throw new Error(`the checkpoint has no tensor ${name}`);
  return data;
}

/** A layer's weights in the files as inputs of the graphs, under the names of `LayerTensor.part`. */
export const weightFeeds = (runtime: Runtime, base: BaseWeights, layer: number): Feeds =>
  Object.fromEntries(
    layerTensors(base.architecture, layer).map(({ part, name, dimensions }) => [
      part,
      runtime.constant(weightOf(base, name), dimensions),
    ]),
  );

/** The kernels of each layer's convolution, [width, taps]; null for a layer without one. */
export const kernelsOf = (base: BaseWeights): (Float32Array | null)[] =>
  Array.from({ length: base.architecture.layers }, (_, layer) =>
    kindOf(base.architecture, layer) === 'convolution'
      ? weightOf(base, `${layerTensorName(base.architecture, layer, kernelPart)}.weight`)
      : null,
  );

/** A trained tensor of a layer in the flat vector, and the input of the graphs that it is. */
export interface TrainedTensor extends TensorShape {
  input: string;
}

export function trainedTensors(architecture: Architecture, trained: Trained): TrainedTensor[][] {
  const layers = [...new Array(architecture.layers).keys()];
  if (trained !== 'all') return layers.map((layer) => adapterParts(architecture, trained, layer));
  const shapes = new Map(trainedShapes(architecture, trained).map((shape) => [shape.name, shape]));
  return layers.map((layer) =>
    layerTensors(architecture, layer).map(({ part, name }) => ({
      ...(shapes.get(name) as TensorShape),
      input: part,
    })),
  );
}

/** The adapter's tensors in a layer, each with its name in the graphs: `<projection>.A` or `<projection>.B`. */
export function adapterParts(architecture: Architecture, lora: LoraSettings, layer: number): TrainedTensor[] {
  const shapes = new Map(adapterShapes(architecture, lora).map((shape) => [shape.name, shape]));
  return projectionsOf(architecture, kindOf(architecture, layer))
    .filter((projection) => lora.targets.includes(projection))
    .flatMap((projection) =>
      ['A', 'B'].map((part) => {
        const name = `${layerTensorName(architecture, layer, projection)}.lora_${part}.weight`;
        return { ...(shapes.get(name) as TensorShape), input: `${projection}.${part}` };
      }),
    );
}

/** Parts of a flat vector as inputs of the graphs. */
export const partFeeds = (runtime: Runtime, parts: readonly TrainedTensor[], vector: Float32Array): Feeds =>
  Object.fromEntries(
    parts.map(({ input, offset, size, dimensions }) => [
      input,
      runtime.float(vector.subarray(offset, offset + size), dimensions),
    ]),
  );

/** Far below any attention score. */
export const masked = -1e9;

/** What layers get of a batch: shapes, positions and the mask of attention. */
export interface BatchFeeds {
  /** For the layers that see all earlier positions. */
  global: Feeds;
  /** For the layers with local attention; the same feeds if there are none. */
  local: Feeds;
  /** For the layers with convolutions; the same feeds if there are none. */
  convolution: Feeds;
  /** For the last layer, if it computes selected states only, and what its backward pass needs beside that. */
  last: { forward: Feeds; backward: Feeds } | null;
}

export function batchFeeds(
  runtime: Runtime,
  architecture: Architecture,
  tokens: PaddedTokens,
  selection: Selection | null = null,
): BatchFeeds {
  const { positions: kind, heads, keyValueHeads, headWidth, local, layers, convolutions } = architecture;
  const { sequences, time, branches = [] } = tokens;
  const batch = sequences.length;
  const parting = branches.some(({ starts }) => starts.length > 1);
  const masks = parting ? batch : 1;
  const positions = new Int32Array(batch * time);
  for (let row = 0; row < batch; row++)
    placeRow(positions.subarray(row * time, (row + 1) * time), branches[row]);
  const visible = (window: number) => {
    const mask = new Float32Array(masks * time * time);
    for (let row = 0; row < masks; row++)
      maskRow(mask.subarray(row * time * time), time, window, branches[row]);
    return runtime.float(mask, [masks, 1, time, time]);
  };
  const rotary = (own: Architecture['positions']): Feeds => {
    if (own === 'learned') return {};
    const { cosines, sines } = rotaryTables(own, headWidth, time);
    const table = (data: Float32Array) => runtime.float(data, [time, headWidth / 2]);
    return { cosines: table(cosines), sines: table(sines) };
  };
  const shape = (count: number, steps = time) => runtime.integer([batch, steps, count, headWidth], [4]);
  const global: Feeds = {
    query_shape: shape(heads),
    key_shape: shape(keyValueHeads),
    visible: visible(time),
    ...(kind === 'learned' ? {} : { positions: runtime.integer(positions, [batch, time]) }),
    ...rotary(kind),
  };
  const isShort = !local || time <= local.window;
  const ofLocal: Feeds = local
    ? { ...global, ...rotary(local.positions), ...(isShort ? {} : { visible: visible(local.window) }) }
    : global;
  const convolution = convolutions ? convolutionFeeds(runtime, convolutions.taps, tokens) : global;
  if (!selection) return { global, local: ofLocal, convolution, last: null };
  const { steps, rows, sources } = selection;
  const own = isLocal(architecture, layers - 1) ? ofLocal : global;
  const mask = own.visible?.data as Float32Array;
  const selected = new Float32Array(rows.length * time);
  for (const [index, state] of rows.entries()) {
    const from = (parting ? state : state % time) * time;
    selected.set(mask.subarray(from, from + time), index * time);
  }
  const last: Feeds = {
    ...own,
    query_shape: shape(heads, steps),
    visible: runtime.float(selected, [batch, 1, steps, time]),
    rows: runtime.integer(rows, [rows.length]),
  };
  if (kind !== 'learned') {
    const placed = rows.map((state) => positions[state] as number);
    last.step_positions = runtime.integer(placed, [batch, steps]);
  }
  const backward = { sources: runtime.integer(sources, [sources.length]) };
  return { global, local: ofLocal, convolution, last: { forward: last, backward } };
}

/** Writes the position of each token in its sequence. Padding continues the last sequence. */
export function placeRow(positions: Int32Array, { shared, starts }: Branches = whole): void {
  for (const at of positions.keys()) positions[at] = at;
  for (const [sequence, start] of starts.entries())
    for (let at = start; at < (starts[sequence + 1] ?? positions.length); at++)
      positions[at] = shared + at - start;
}

/**
 * Masks what a token must not attend to [time, time]: later tokens, tokens of other sequences, and tokens of its
 * own sequence that are `window` or more positions before it.
 */
function maskRow(
  visible: Float32Array,
  time: number,
  window: number,
  { shared, starts }: Branches = whole,
): void {
  /** Where the tokens of a sequence that follow the shared ones begin, and which sequence is next. */
  let [start, next] = [shared, 0];
  for (let at = 0; at < time; at++) {
    for (; starts[next] === at; next++) start = at;
    const first = Math.max(0, shared + at - start + 1 - window);
    const row = at * time;
    visible.fill(masked, row, row + Math.min(shared, first));
    visible.fill(masked, row + shared, row + start + Math.max(0, first - shared));
    visible.fill(masked, row + at + 1, row + time);
  }
}
