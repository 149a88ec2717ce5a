import { masked } from '../../runner/batch-feeds.ts';
import type { Feeds, Runtime } from '../../runtime.ts';
import { type Architecture, attentionScaleOf, isLocal, kindOf } from '../../weights/architecture.ts';
import { atLeast, type CachedAttention, type MixLayer, type TokenRange } from '../cached-attention.ts';
import { convolve } from './convolve.ts';
import { KeyValueCache } from './key-value-cache.ts';

/** Positions of a run's tokens in the padded batch [ranges, steps], and the parts of the cache that they do not see. */
interface Layout {
  ranges: readonly TokenRange[];
  steps: number;
  /** For each token of the run its index in the padded batch. */
  rows: number[];
  mask: Float32Array;
  /** For the layers with local attention. */
  localMask: Float32Array;
}

/**
 * Attention that the graph computes in a padded batch, for queries and a cache that are written here. Positions that a
 * query does not see add exact zeros. Convolutions are computed here, a token at a time.
 */
export class PaddedAttention implements CachedAttention {
  readonly cache: KeyValueCache;
  readonly #runtime: Runtime;
  readonly #architecture: Architecture;
  /** The kernels of each layer's convolution. */
  readonly #kernels: readonly (Float32Array | null)[];
  /** Memory of the inputs, used again by the next run. */
  #mask = new Float32Array(0);
  #localMask = new Float32Array(0);
  #query = new Float32Array(0);
  #convolved = new Float32Array(0);

  constructor(runtime: Runtime, architecture: Architecture, kernels: readonly (Float32Array | null)[]) {
    this.#runtime = runtime;
    this.#architecture = architecture;
    this.#kernels = kernels;
    this.cache = new KeyValueCache(architecture);
  }

  /** Attention scores of one token. */
  get elementsPerToken(): number {
    return this.#architecture.heads * this.cache.width;
  }

  release(): void {
    this.cache.clear();
  }

  begin(firstSlot: number, ranges: readonly TokenRange[], tokens: number): MixLayer {
    const layout = this.#layout(ranges, tokens);
    return (layer, packed, picked) =>
      kindOf(this.#architecture, layer) === 'convolution'
        ? this.#convolutionFeeds(layer, firstSlot, ranges, packed, picked)
        : this.#attentionFeeds(layer, firstSlot, layout, packed, picked);
  }

  /** Number of heads that share keys and values. */
  get #sharers(): number {
    return this.#architecture.heads / this.#architecture.keyValueHeads;
  }

  #layout(ranges: readonly TokenRange[], tokens: number): Layout {
    const copies = this.#sharers;
    const steps = ranges.reduce((most, { start, end }) => Math.max(most, end - start), copies > 1 ? 1 : 2);
    const { width } = this.cache;
    const rows = new Array<number>(tokens).fill(0);
    const size = ranges.length * steps * copies * width;
    this.#mask = atLeast(this.#mask, size);
    const mask = this.#mask.subarray(0, size).fill(0);
    const window = this.#architecture.local?.window ?? Number.POSITIVE_INFINITY;
    /** Whether the layers with local attention see fewer positions than the others. */
    const isNarrow = ranges.some(({ start, end }) => start < end && end > window);
    if (isNarrow) this.#localMask = atLeast(this.#localMask, size);
    const localMask = isNarrow ? this.#localMask.subarray(0, size) : mask;
    for (const [row, { start, end, offset }] of ranges.entries())
      for (let position = start; position < end; position++) {
        const step = row * steps + position - start;
        rows[offset + position - start] = step;
        for (let copy = step * copies; copy < (step + 1) * copies; copy++)
          mask.fill(masked, copy * width + position + 1, (copy + 1) * width);
      }
    if (isNarrow) {
      localMask.set(mask);
      for (const [row, { start, end }] of ranges.entries())
        for (let position = Math.max(start, window); position < end; position++) {
          const step = row * steps + position - start;
          for (let copy = step * copies; copy < (step + 1) * copies; copy++)
            localMask.fill(masked, copy * width, copy * width + position + 1 - window);
        }
    }
    return { ranges, steps, rows, mask, localMask };
  }

  /**
   * Writes the ranges' keys and values into the cache. Returns their queries with the factor of the attention's scores:
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
    ranges: readonly TokenRange[],
    packed: Float32Array,
    picked: readonly number[] | null,
  ): Feeds {
    const { width } = this.#architecture;
    const tokens = packed.length / (3 * width);
    this.#convolved = atLeast(this.#convolved, tokens * width);
    const convolved = this.#convolved.subarray(0, tokens * width);
    const kernels = this.#kernels[layer] as Float32Array;
    for (const [row, range] of ranges.entries()) {
      const inputs = this.cache.inputs(layer, firstSlot + row);
      convolve({ packed, kernels, inputs, width, convolved }, range);
    }
    if (!picked) return { mixed: this.#runtime.float(convolved, [tokens, width]) };
    // Ascending, so that none is overwritten before it is read.
    for (const [row, token] of picked.entries())
      convolved.copyWithin(row * width, token * width, (token + 1) * width);
    return {
      mixed: this.#runtime.float(convolved.subarray(0, picked.length * width), [picked.length, width]),
    };
  }

  #attentionFeeds(
    layer: number,
    firstSlot: number,
    layout: Layout,
    packed: Float32Array,
    picked: readonly number[] | null,
  ): Feeds {
    const query = this.#storeKeysAndValues(layer, firstSlot, layout, packed);
    const { ranges, steps, mask, localMask } = layout;
    const rows = picked ? picked.map((token) => layout.rows[token] as number) : layout.rows;
    const batch = ranges.length;
    const { keyValueHeads, headWidth } = this.#architecture;
    const sharers = this.#sharers;
    const { width } = this.cache;
    const cached = this.cache.tensors(layer, firstSlot, batch);
    const own = isLocal(this.#architecture, layer) ? localMask : mask;
    const keyShape = [batch, keyValueHeads, width, headWidth];
    return {
      query: this.#runtime.float(query, [batch, steps * sharers, keyValueHeads * headWidth]),
      key: this.#runtime.float(cached.key, keyShape),
      value: this.#runtime.float(cached.value, keyShape),
      mask: this.#runtime.float(own, [batch, 1, steps * sharers, width]),
      rows: this.#runtime.integer(rows, [rows.length]),
    };
  }
}
