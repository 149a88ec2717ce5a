import { decodingGraphs } from '../graphs/decoding-graphs.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { type Architecture, headWidth } from '../weights/architecture.ts';
import { KeyValueCache } from './key-value-cache.ts';

/** The tokens of one sequence to run through the model: `tokens` from `start` to `end`. */
export interface Chunk {
  tokens: readonly number[];
  start: number;
  end: number;
}

const masked = -1e9;

/** Runs tokens through one set of weights, with its own key-value cache. */
export class Decoder {
  readonly cache: KeyValueCache;
  readonly #runtime: Runtime;
  readonly #architecture: Architecture;
  readonly #sessions: Session[];
  #ones = new Float32Array(0);

  private constructor(runtime: Runtime, architecture: Architecture, sessions: Session[]) {
    this.#runtime = runtime;
    this.#architecture = architecture;
    this.#sessions = sessions;
    this.cache = new KeyValueCache(architecture);
  }

  static async create(runtime: Runtime, architecture: Architecture, weights: Float32Array): Promise<Decoder> {
    const sessions: Session[] = [];
    for (const model of decodingGraphs(architecture, weights)) sessions.push(await runtime.session(model));
    return new Decoder(runtime, architecture, sessions);
  }

  /** The same weights with another cache. Closing this decoder closes both. The two must not run at the same time. */
  twin(): Decoder {
    return new Decoder(this.#runtime, this.#architecture, this.#sessions);
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.release();
    this.cache.clear();
  }

  /**
   * Runs one chunk for each slot from `firstSlot`; the cache must have room. Returns the logits after each chunk's last
   * token, [chunks, vocabulary]; those of an empty chunk are meaningless.
   */
  run(firstSlot: number, chunks: readonly Chunk[]): Promise<Float32Array> {
    return this.#run(firstSlot, chunks, this.#lay(chunks));
  }

  /** Runs a non-empty chunk in one slot. Returns the logits after each of its tokens, [tokens, vocabulary]. */
  runThrough(slot: number, chunk: Chunk): Promise<Float32Array> {
    const layout = this.#lay([chunk]);
    const picked = BigInt64Array.from({ length: layout.tokens }, (_, index) => BigInt(index));
    return this.#run(slot, [chunk], { ...layout, picked });
  }

  async #run(firstSlot: number, chunks: readonly Chunk[], layout: Layout): Promise<Float32Array> {
    let outputs = await this.#session(0).run(this.#embeddingFeeds(layout));
    for (let layer = 0; layer < this.#architecture.layers; layer++) {
      const packed = outputs.packed?.data as Float32Array;
      const query = this.#scatter(layer, firstSlot, chunks, layout, packed);
      outputs = await this.#session(layer + 1).run(
        this.#layerFeeds(layer, firstSlot, layout, outputs.state?.data as Float32Array, query),
      );
    }
    return outputs.logits?.data as Float32Array;
  }

  /** Computes the flat and padded indices of the tokens. A single token is run twice, see `Layout.tokens`. */
  #lay(chunks: readonly Chunk[]): Layout {
    let tokens = 0;
    let steps = 1;
    for (const { start, end } of chunks) {
      tokens += end - start;
      steps = Math.max(steps, end - start);
    }
    const padding = tokens === 1 ? 1 : 0;
    const width = this.cache.width;
    const flat = tokens + padding;
    const layout: Layout = {
      chunks,
      batch: chunks.length,
      steps,
      tokens: flat,
      width,
      rows: new BigInt64Array(flat),
      picked: new BigInt64Array(chunks.length + padding),
      mask: new Float32Array(chunks.length * steps * width),
    };
    let flatIndex = 0;
    chunks.forEach(({ start, end }, row) => {
      for (let position = start; position < end; position++, flatIndex++) {
        const step = row * steps + position - start;
        layout.rows[flatIndex] = BigInt(step);
        layout.mask.fill(masked, step * width + position + 1, (step + 1) * width);
      }
      layout.picked[row] = BigInt(Math.max(0, flatIndex - 1));
    });
    return layout;
  }

  #embeddingFeeds(layout: Layout): Feeds {
    const { previousTokens } = this.#architecture;
    const { tokens } = layout;
    const ids = new BigInt64Array(tokens);
    const positions = new BigInt64Array(tokens);
    const previous = Array.from({ length: previousTokens }, () => new BigInt64Array(tokens));
    let index = 0;
    for (const chunk of layout.chunks)
      for (let position = chunk.start; position < chunk.end; position++, index++) {
        ids[index] = BigInt(chunk.tokens[position] as number);
        positions[index] = BigInt(position);
        for (let distance = 1; distance <= previousTokens && distance <= position; distance++)
          (previous[distance - 1] as BigInt64Array)[index] = BigInt(
            chunk.tokens[position - distance] as number,
          );
      }
    const feeds: Feeds = {
      ids: this.#runtime.integer(ids, [tokens]),
      positions: this.#runtime.integer(positions, [tokens]),
    };
    previous.forEach((values, at) => {
      feeds[`previous.${at + 1}`] = this.#runtime.integer(values, [tokens]);
    });
    return feeds;
  }

  /** Writes the chunks' keys and values into the cache; returns their queries, [batch, heads, steps, head width]. */
  #scatter(
    layer: number,
    firstSlot: number,
    chunks: readonly Chunk[],
    { batch, steps }: Layout,
    packed: Float32Array,
  ): Float32Array {
    const { heads, width } = this.#architecture;
    const span = headWidth(this.#architecture);
    const query = new Float32Array(batch * heads * steps * span);
    let offset = 0;
    chunks.forEach(({ start, end }, row) => {
      for (let position = start; position < end; position++, offset += 3 * width) {
        this.cache.write(layer, firstSlot + row, position, packed, offset);
        for (let head = 0; head < heads; head++) {
          let target = ((row * heads + head) * steps + position - start) * span;
          let source = offset + head * span;
          for (let index = 0; index < span; index++) query[target++] = packed[source++] as number;
        }
      }
    });
    return query;
  }

  #layerFeeds(
    layer: number,
    firstSlot: number,
    layout: Layout,
    state: Float32Array,
    query: Float32Array,
  ): Feeds {
    const { batch, steps, tokens, width } = layout;
    const { heads } = this.#architecture;
    const span = headWidth(this.#architecture);
    const cached = this.cache.tensors(layer, firstSlot, batch);
    if (this.#ones.length !== width) this.#ones = new Float32Array(width).fill(1);
    const feeds: Feeds = {
      state_in: this.#runtime.float(state, [tokens, this.#architecture.width]),
      query: this.#runtime.float(query, [batch, heads, steps, span]),
      key: this.#runtime.float(cached.key, [batch, heads, width, span]),
      value: this.#runtime.float(cached.value, [batch, heads, width, span]),
      mask: this.#runtime.float(layout.mask, [batch, 1, steps, width]),
      ones: this.#runtime.float(this.#ones, [width, 1]),
      rows: this.#runtime.integer(layout.rows, [tokens]),
    };
    if (layer + 1 === this.#architecture.layers)
      feeds.picked = this.#runtime.integer(layout.picked, [layout.picked.length]);
    return feeds;
  }

  #session(index: number): Session {
    return this.#sessions[index] as Session;
  }
}

interface Layout {
  chunks: readonly Chunk[];
  batch: number;
  steps: number;
  /** Number of flat tokens. A single token counts as two, because a product of one row rounds differently. */
  tokens: number;
  width: number;
  /** For each flat token its index in the padded [batch, steps] layout. */
  rows: BigInt64Array;
  /** Flat indices of the tokens whose logits are requested: the last token of each chunk, unless `runThrough`. */
  picked: BigInt64Array;
  mask: Float32Array;
}
