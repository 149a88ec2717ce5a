import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type TokenRange, tokenFeeds } from '../graphs/token-feeds.ts';
import { type AdapterVector, type BaseWeights, kernelsOf } from '../runner/layer-feeds.ts';
import { type Feeds, freeAll, type Runtime } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { type Architecture, attentionScaleOf, isLocal, kindOf } from '../weights/architecture.ts';
import { convolve } from './convolve.ts';
import { type Chunk, type Decoder, rowsOf, type StepOutput, type Wanted } from './decoder.ts';
import type { DecodingStage, DecodingStages } from './decoding-stages.ts';
import { DrawFeeds } from './draws.ts';
import { inPlaceStages } from './in-place-stages.ts';
import { KeyValueCache } from './key-value-cache.ts';
import { packedStages } from './packed-stages.ts';

const masked = -1e9;

const none = new Float32Array(0);
const noRows: LogitRows = { logits: none, largest: none, likelihoods: none };

/**
 * Runs tokens through a checkpoint, by graphs of ONNX Runtime, with its own key-value cache.
 *
 * On the CPU a token's logits have the same bits in any batch, and however its sequence was cut into chunks: a row of a
 * product depends on no other row (see `PackedProducts`), nor does a query of an attention, and positions that it does not
 * see add exact zeros; convolutions are computed here, a token at a time. A single row rounds differently, so there are
 * always two.
 */
export class CheckpointDecoder implements Decoder {
  readonly cache: KeyValueCache;
  readonly #runtime: Runtime;
  readonly #architecture: Architecture;
  readonly #stages: DecodingStages;
  /** The kernels of each layer's convolution. */
  readonly #kernels: readonly (Float32Array | null)[];
  /** Null if the graphs output logits only. */
  readonly #draws: DrawFeeds | null;
  /** Memory of the inputs, used again by the next run. */
  #mask = new Float32Array(0);
  #localMask = new Float32Array(0);
  #query = new Float32Array(0);
  #convolved = new Float32Array(0);
  /** The outputs of the last run. */
  #rows: LogitRows | undefined;

  private constructor(
    runtime: Runtime,
    architecture: Architecture,
    { stages, kernels }: { stages: DecodingStages; kernels: readonly (Float32Array | null)[] },
    draws: DrawFeeds | null,
  ) {
    this.#runtime = runtime;
    this.#architecture = architecture;
    this.#stages = stages;
    this.#kernels = kernels;
    this.#draws = draws;
    this.cache = new KeyValueCache(architecture);
  }

  /** `adapter`: null for the checkpoint as it is. */
  static async create(
    runtime: Runtime,
    base: BaseWeights,
    adapter: AdapterVector | null,
  ): Promise<CheckpointDecoder> {
    const { architecture } = base;
    const draws = runtime.device === 'cpu' ? new DrawFeeds(runtime, architecture.vocabularySize) : null;
    const stages = await (runtime.device === 'cpu' ? packedStages : inPlaceStages)(runtime, base, adapter);
    return new CheckpointDecoder(runtime, architecture, { stages, kernels: kernelsOf(base) }, draws);
  }

  twin(): CheckpointDecoder {
    const own = { stages: this.#stages, kernels: this.#kernels };
    return new CheckpointDecoder(this.#runtime, this.#architecture, own, this.#draws);
  }

  /** Of the attention scores, of the hidden layer, or of the parts of a convolution. */
  get elementsPerToken(): number {
    const { heads, mlpWidth, width, convolutions } = this.#architecture;
    return Math.max(heads * this.cache.width, mlpWidth, convolutions ? 3 * width : 0);
  }

  async close(): Promise<void> {
    await this.#stages.release();
    this.cache.clear();
  }

  async run(firstSlot: number, chunks: readonly Chunk[], { everyToken = false } = {}): Promise<LogitRows> {
    const layout = this.#layout(chunks);
    const ends = layout.last.filter((_, row) => (chunks[row]?.start ?? 0) < (chunks[row]?.end ?? 0));
    const picked = twoRows(everyToken ? BigInt64Array.from(layout.rows.keys(), BigInt) : ends);
    const draws = this.#draws?.feeds(Array.from(picked, () => null));
    return this.#keep(await this.#run(firstSlot, layout, picked, draws));
  }

  async step(firstSlot: number, chunks: readonly Chunk[], wanted: readonly Wanted[]): Promise<StepOutput> {
    if (!this.#draws) return { rows: await this.run(firstSlot, chunks), outcomes: rowsOf(chunks) };
    const layout = this.#layout(chunks);
    const draws = twoRows(wanted.flatMap((one) => (one === null ? [] : one === 'logits' ? [null] : [one])));
    const picked = twoRows(layout.last.filter((_, row) => wanted[row] !== null));
    const outputs = await this.#run(firstSlot, layout, picked, this.#draws.feeds(draws));
    const drawn = draws.length > 0 ? this.#draws.read(draws, outputs) : [];
    let [pickedRow, wholeRow] = [0, 0];
    const outcomes = wanted.map((one) => (one === null ? null : (drawn[pickedRow++] ?? wholeRow++)));
    return { rows: this.#keep(outputs), outcomes };
  }

  #keep(outputs: InferenceSession.OnnxValueMapType): LogitRows {
    this.#rows = outputs.logits ? logitRowsOf(outputs) : undefined;
    return this.#rows ?? noRows;
  }

  /** The outputs of the last stage, for the flat tokens `picked`. Without any it is not run: it writes no keys. */
  async #run(
    firstSlot: number,
    layout: Layout,
    picked: BigInt64Array,
    end: Feeds = {},
  ): Promise<InferenceSession.OnnxValueMapType> {
    freeAll(Object.values(this.#rows ?? {}));
    const [first, ...layers] = this.#stages.stages as [DecodingStage, ...DecodingStage[]];
    const positions = this.#positions(layout);
    const ids = tokenFeeds(this.#runtime, this.#architecture.previousTokens, [layout.tokens], layout.ranges);
    const placed = ({ takesPositions }: DecodingStage): Feeds => (takesPositions ? { positions } : {});
    let outputs = await first.session.run({ ...first.weights, ...ids, ...placed(first) });
    for (const [layer, stage] of layers.entries()) {
      const { session, weights } = stage;
      const [packed, state] = [outputs.packed?.data as Float32Array, outputs.state?.data as Float32Array];
      const mixes = kindOf(this.#architecture, layer);
      const feeds: Feeds = {
        ...weights,
        ...placed(stage),
        state_in: this.#runtime.float(state, [layout.tokens, this.#architecture.width]),
        ...(mixes === 'convolution'
          ? this.#convolutionFeeds(layer, firstSlot, layout, packed)
          : this.#attentionFeeds(layer, firstSlot, layout, packed)),
      };
      if (layer + 1 < layers.length) outputs = await session.run(feeds);
      else if (picked.length === 0) outputs = {};
      else
        outputs = await session.run({
          ...feeds,
          ...end,
          picked: this.#runtime.integer(picked, [picked.length]),
        });
      freeAll([packed, state]);
    }
    return outputs;
  }

  /** Number of heads that share keys and values. */
  get #sharers(): number {
    return this.#architecture.heads / this.#architecture.keyValueHeads;
  }

  /** Computes the flat and padded indices of the tokens. */
  #layout(chunks: readonly Chunk[]): Layout {
    let tokens = 0;
    let steps = this.#sharers > 1 ? 1 : 2;
    for (const { start, end } of chunks) {
      tokens += end - start;
      steps = Math.max(steps, end - start);
    }
    tokens = Math.max(2, tokens);
    const width = this.cache.width;
    const rows = new BigInt64Array(tokens);
    const last = new BigInt64Array(chunks.length);
    const copies = this.#sharers;
    const size = chunks.length * steps * copies * width;
    this.#mask = atLeast(this.#mask, size);
    const mask = this.#mask.subarray(0, size).fill(0);
    const window = this.#architecture.local?.window ?? Number.POSITIVE_INFINITY;
    /** Whether the layers with local attention see fewer positions than the others. */
    const isNarrow = chunks.some(({ start, end }) => start < end && end > window);
    if (isNarrow) this.#localMask = atLeast(this.#localMask, size);
    const localMask = isNarrow ? this.#localMask.subarray(0, size) : mask;
    let offset = 0;
    const ranges = chunks.map((chunk, row) => {
      const { start, end } = chunk;
      const range = { ...chunk, offset };
      for (let position = start; position < end; position++, offset++) {
        const step = row * steps + position - start;
        rows[offset] = BigInt(step);
        for (let copy = step * copies; copy < (step + 1) * copies; copy++)
          mask.fill(masked, copy * width + position + 1, (copy + 1) * width);
      }
      last[row] = BigInt(Math.max(0, offset - 1));
      return range;
    });
    if (isNarrow) {
      localMask.set(mask);
      for (const [row, { start, end }] of chunks.entries())
        for (let position = Math.max(start, window); position < end; position++) {
          const step = row * steps + position - start;
          for (let copy = step * copies; copy < (step + 1) * copies; copy++)
            localMask.fill(masked, copy * width, copy * width + position + 1 - window);
        }
    }
    return { ranges, steps, tokens, width, rows, last, mask, localMask };
  }

  #positions({ ranges, tokens }: Layout): Tensor {
    const positions = new BigInt64Array(tokens);
    for (const { start, end, offset } of ranges)
      for (let position = start; position < end; position++)
        positions[offset + position - start] = BigInt(position);
    return this.#runtime.integer(positions, [tokens, 1]);
  }

  /**
   * Writes the chunks' keys and values into the cache. Returns their queries with the factor of the attention's scores:
   * [batch, steps, heads, head width], with the first heads of all groups before the second ones.
   */
  #storeKeysAndValues(
    layer: number,
    firstSlot: number,
    { ranges, steps }: Layout,
    packed: Float32Array,
  ): Float32Array {
    const { heads, keyValueHeads, headWidth } = this.#architecture;
    const width = heads * headWidth;
    const scale = attentionScaleOf(this.#architecture);
    const size = ranges.length * steps * width;
    this.#query = atLeast(this.#query, size);
    const query = this.#query.subarray(0, size);
    let offset = 0;
    ranges.forEach(({ start, end }, row) => {
      for (
        let position = start;
        position < end;
        position++, offset += width + 2 * keyValueHeads * headWidth
      ) {
        this.cache.write(layer, firstSlot + row, position, packed, offset + width);
        const target = (row * steps + position - start) * width;
        for (let head = 0; head < heads; head++) {
          const from = offset + head * headWidth;
          const to = target + this.#groupedPlace(head) * headWidth;
          for (let index = 0; index < headWidth; index++)
            query[to + index] = (packed[from + index] as number) * scale;
        }
      }
    });
    return query;
  }

  /** A head's place: heads that share keys and values are rows of one product. */
  #groupedPlace(head: number): number {
    return (head % this.#sharers) * this.#architecture.keyValueHeads + Math.floor(head / this.#sharers);
  }

  /** The values of a layer's convolution, computed here because its cache is. */
  #convolutionFeeds(
    layer: number,
    firstSlot: number,
    { ranges, tokens }: Layout,
    packed: Float32Array,
  ): Feeds {
    const { width } = this.#architecture;
    const size = tokens * width;
    this.#convolved = atLeast(this.#convolved, size);
    const convolved = this.#convolved.subarray(0, size);
    const kernels = this.#kernels[layer] as Float32Array;
    for (const [row, { start, end, offset }] of ranges.entries()) {
      const inputs = this.cache.inputs(layer, firstSlot + row);
      convolve({ packed, kernels, inputs, width, convolved }, { start, end, offset });
    }
    return { convolved: this.#runtime.float(convolved, [tokens, width]) };
  }

  #attentionFeeds(layer: number, firstSlot: number, layout: Layout, packed: Float32Array): Feeds {
    const query = this.#storeKeysAndValues(layer, firstSlot, layout, packed);
    const { ranges, steps, tokens, width, mask, localMask, rows } = layout;
    const batch = ranges.length;
    const { keyValueHeads, headWidth } = this.#architecture;
    const sharers = this.#sharers;
    const cached = this.cache.tensors(layer, firstSlot, batch);
    const own = isLocal(this.#architecture, layer) ? localMask : mask;
    const keyShape = [batch, keyValueHeads, width, headWidth];
    return {
      query: this.#runtime.float(query, [batch, steps * sharers, keyValueHeads * headWidth]),
      key: this.#runtime.float(cached.key, keyShape),
      value: this.#runtime.float(cached.value, keyShape),
      mask: this.#runtime.float(own, [batch, 1, steps * sharers, width]),
      rows: this.#runtime.integer(rows, [tokens]),
    };
  }
}

/** The rows, or the only one twice. */
function twoRows(rows: BigInt64Array): BigInt64Array;
function twoRows<Row>(rows: Row[]): Row[];
function twoRows<Row>(rows: BigInt64Array | Row[]): BigInt64Array | Row[] {
  if (rows.length !== 1) return rows;
  return rows instanceof BigInt64Array
    ? BigInt64Array.of(rows[0] as bigint, rows[0] as bigint)
    : [...rows, ...rows];
}

/** The array itself, or a larger one in its place. */
function atLeast(array: Float32Array<ArrayBuffer>, size: number): Float32Array<ArrayBuffer> {
  return array.length >= size ? array : new Float32Array(Math.max(size, 2 * array.length));
}

interface Layout {
  /** One for each chunk. */
  ranges: readonly TokenRange[];
  steps: number;
  /** Number of flat tokens, at least 2: one that no chunk has is computed and not used. */
  tokens: number;
  width: number;
  /** For each flat token its index in the padded [chunks, steps] layout. */
  rows: BigInt64Array;
  /** Flat indices of the last token of each chunk. */
  last: BigInt64Array;
  mask: Float32Array;
  /** For the layers with local attention. */
  localMask: Float32Array;
}
