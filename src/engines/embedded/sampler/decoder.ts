import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type TokenRange, tokenFeeds } from '../graphs/token-feeds.ts';
import type { AdapterVector, LoraBase } from '../lora/layer-feeds.ts';
import { type Feeds, freeAll, type Runtime } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import { checkpointStages, type DecodingStage, trainedStages } from './decoding-stages.ts';
import { type Draw, DrawFeeds, type Drawn } from './draws.ts';
import { KeyValueCache } from './key-value-cache.ts';

/** The tokens of one sequence to run through the model: `tokens` from `start` to `end`. */
export interface Chunk {
  tokens: readonly number[];
  start: number;
  end: number;
}

/** What is needed after a chunk's last token: a token that the graph chooses, its logits, or nothing. */
export type Wanted = Draw | 'logits' | null;

export interface StepOutput {
  rows: LogitRows;
  /** For each chunk the token that was chosen, the index of its row of logits, or null. */
  outcomes: (Drawn | number | null)[];
}

const masked = -1e9;

const none = new Float32Array(0);
const noRows: LogitRows = { logits: none, largest: none, likelihoods: none };

/** Runs tokens through one set of weights, with its own key-value cache. */
export class Decoder {
  readonly cache: KeyValueCache;
  readonly #runtime: Runtime;
  readonly #architecture: Architecture;
  readonly #stages: readonly DecodingStage[];
  /** Null if the graphs output logits only. */
  readonly #draws: DrawFeeds | null;
  #halves = new Float32Array(0);
  /** Memory of the inputs, used again by the next run. */
  #mask = new Float32Array(0);
  #query = new Float32Array(0);
  /** The outputs of the last run. */
  #rows: LogitRows | undefined;

  private constructor(
    runtime: Runtime,
    architecture: Architecture,
    stages: readonly DecodingStage[],
    draws: DrawFeeds | null,
  ) {
    this.#runtime = runtime;
    this.#architecture = architecture;
    this.#stages = stages;
    this.#draws = draws;
    this.cache = new KeyValueCache(architecture);
  }

  /** `weights`: all parameters of a model that are trained. */
  static async create(runtime: Runtime, architecture: Architecture, weights: Float32Array): Promise<Decoder> {
    return new Decoder(runtime, architecture, await trainedStages(runtime, architecture, weights), null);
  }

  /** `adapter`: null for the checkpoint as it is. */
  static async ofCheckpoint(
    runtime: Runtime,
    base: LoraBase,
    adapter: AdapterVector | null,
  ): Promise<Decoder> {
    const { architecture } = base;
    const draws = runtime.device === 'cpu' ? new DrawFeeds(runtime, architecture.vocabularySize) : null;
    return new Decoder(runtime, architecture, await checkpointStages(runtime, base, adapter), draws);
  }

  /** The same weights with another cache. Closing this decoder closes both. The two must not run at the same time. */
  twin(): Decoder {
    return new Decoder(this.#runtime, this.#architecture, this.#stages, this.#draws);
  }

  async close(): Promise<void> {
    for (const session of new Set(this.#stages.map((stage) => stage.session))) await session.release();
    this.cache.clear();
  }

  /**
   * Runs one chunk for each slot from `firstSlot`; the cache must be large enough. Returns a row of logits after each
   * chunk's last token; those of an empty chunk are meaningless. With `everyToken`, returns a row after every token. A
   * run of a single token has one more row. The next run frees the rows.
   */
  async run(firstSlot: number, chunks: readonly Chunk[], { everyToken = false } = {}): Promise<LogitRows> {
    const layout = this.#layout(chunks);
    const picked = everyToken ? BigInt64Array.from(layout.rows.keys(), BigInt) : layout.last;
    const draws = this.#draws?.feeds(Array.from(picked, () => null));
    return this.#keep(await this.#run(firstSlot, layout, picked, draws));
  }

  /** The same, with only what is wanted after each chunk. A model whose graphs choose no tokens gives all logits. */
  async step(firstSlot: number, chunks: readonly Chunk[], wanted: readonly Wanted[]): Promise<StepOutput> {
    if (!this.#draws)
      return { rows: await this.run(firstSlot, chunks), outcomes: chunks.map((_, row) => row) };
    const layout = this.#layout(chunks);
    const draws = wanted.flatMap((one) => (one === null ? [] : one === 'logits' ? [null] : [one]));
    const picked = layout.last.filter((_, row) => wanted[row] !== null);
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
    const [first, ...layers] = this.#stages as [DecodingStage, ...DecodingStage[]];
    const positions = this.#positions(layout);
    const ids = tokenFeeds(this.#runtime, this.#architecture.previousTokens, [layout.tokens], layout.ranges);
    let outputs = await first.session.run({ ...first.weights, ...ids, positions });
    for (const [layer, { session, weights, takesPositions }] of layers.entries()) {
      const [packed, state] = [outputs.packed?.data as Float32Array, outputs.state?.data as Float32Array];
      const query = this.#storeKeysAndValues(layer, firstSlot, layout, packed);
      const feeds: Feeds = {
        ...weights,
        ...(takesPositions ? { positions } : {}),
        ...this.#layerFeeds(layer, firstSlot, layout, state, query),
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

  /** Whether the graphs multiply the heads that share keys and values together: those of checkpoints do. */
  get #groups(): boolean {
    return this.#architecture.positions !== 'learned';
  }

  /** Number of heads that share keys and values. */
  get #sharers(): number {
    return this.#architecture.heads / this.#architecture.keyValueHeads;
  }

  /** Computes the flat and padded indices of the tokens. A single token may be run twice, see `Layout.tokens`. */
  #layout(chunks: readonly Chunk[]): Layout {
    let tokens = 0;
    let steps = 1;
    for (const { start, end } of chunks) {
      tokens += end - start;
      steps = Math.max(steps, end - start);
    }
    const padding = tokens === 1 && !this.#groups ? 1 : 0;
    const width = this.cache.width;
    const flat = tokens + padding;
    const rows = new BigInt64Array(flat);
    const last = new BigInt64Array(chunks.length + padding);
    const copies = this.#groups ? this.#sharers : 1;
    const size = chunks.length * steps * copies * width;
    this.#mask = atLeast(this.#mask, size);
    const mask = this.#mask.subarray(0, size).fill(0);
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
    return { ranges, steps, tokens: flat, width, rows, last, mask };
  }

  #positions({ ranges, tokens }: Layout): Tensor {
    const positions = new BigInt64Array(tokens);
    for (const { start, end, offset } of ranges)
      for (let position = start; position < end; position++)
        positions[offset + position - start] = BigInt(position);
    return this.#runtime.integer(positions, this.#groups ? [tokens, 1] : [tokens]);
  }

  /**
   * Writes the chunks' keys and values into the cache. Returns their queries divided by the root of the head width:
   * [batch, steps, heads, head width], with the first heads of all groups before the second ones if `#groups`.
   */
  #storeKeysAndValues(
    layer: number,
    firstSlot: number,
    { ranges, steps }: Layout,
    packed: Float32Array,
  ): Float32Array {
    const { heads, keyValueHeads, headWidth } = this.#architecture;
    const width = heads * headWidth;
    const scale = 1 / Math.sqrt(headWidth);
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
          const to = target + (this.#groups ? this.#groupedPlace(head) : head) * headWidth;
          for (let index = 0; index < headWidth; index++)
            query[to + index] = (packed[from + index] as number) * scale;
        }
      }
    });
    return query;
  }

  /** A head's place if heads that share keys and values are rows of one product. */
  #groupedPlace(head: number): number {
    return (head % this.#sharers) * this.#architecture.keyValueHeads + Math.floor(head / this.#sharers);
  }

  #layerFeeds(
    layer: number,
    firstSlot: number,
    { ranges, steps, tokens, width, mask, rows }: Layout,
    state: Float32Array,
    query: Float32Array,
  ): Feeds {
    const batch = ranges.length;
    const { keyValueHeads, headWidth } = this.#architecture;
    const sharers = this.#sharers;
    const cached = this.cache.tensors(layer, firstSlot, batch);
    const feed = (key: number[], queries: number[], masks: number[]): Feeds => ({
      state_in: this.#runtime.float(state, [tokens, this.#architecture.width]),
      query: this.#runtime.float(query, queries),
      key: this.#runtime.float(cached.key, key),
      value: this.#runtime.float(cached.value, key),
      mask: this.#runtime.float(mask, masks),
      rows: this.#runtime.integer(rows, [tokens]),
    });
    if (this.#groups)
      return feed(
        [batch, keyValueHeads, width, headWidth],
        [batch, steps * sharers, keyValueHeads * headWidth],
        [batch, 1, steps * sharers, width],
      );
    if (this.#halves.length !== width) this.#halves = new Float32Array(width).fill(0.5);
    return {
      ...feed(
        [batch, 1, keyValueHeads, 1, width, headWidth],
        [batch, steps, keyValueHeads, sharers, 1, headWidth],
        [batch, steps, 1, 1, 1, width],
      ),
      halves: this.#runtime.float(this.#halves, [width, 1]),
    };
  }
}

/** The array itself, or a larger one in its place. */
function atLeast(array: Float32Array<ArrayBuffer>, size: number): Float32Array<ArrayBuffer> {
  return array.length >= size ? array : new Float32Array(Math.max(size, 2 * array.length));
}

interface Layout {
  /** One for each chunk. */
  ranges: readonly TokenRange[];
  steps: number;
  /**
   * Number of flat tokens. A single token of a model that is trained as a whole counts as two, because a product of one
   * row rounds differently.
   */
  tokens: number;
  width: number;
  /** For each flat token its index in the padded [chunks, steps] layout. */
  rows: BigInt64Array;
  /** Flat indices of the last token of each chunk. */
  last: BigInt64Array;
  mask: Float32Array;
}
