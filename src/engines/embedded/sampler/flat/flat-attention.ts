import type { Runtime } from '../../runtime.ts';
import { floatBytes } from '../../wasm/wasm-memory.ts';
import { atLeast, type CachedAttention, type MixLayer, type TokenRange } from '../cached-attention.ts';
import { type CacheShape, FlatCache, tokensTogether } from './flat-cache.ts';

/**
 * Attention by functions of WebAssembly, which know what each token needs of the cache and read it in place. Each token is
 * computed on its own, so its bits depend on nothing but the tokens before it.
 */
export class FlatAttention implements CachedAttention {
  readonly cache: FlatCache;
  /** It keeps no scores. Longer runs than this allows would not stay in the processor's cache. */
  readonly elementsPerToken = 1024;
  readonly #runtime: Runtime;
  /** Numbers of a token's query, and of its query, key and value. */
  readonly #widths: { mixed: number; packed: number };
  /** Used again by the next layer. */
  #mixed = new Float32Array(0);

  constructor(runtime: Runtime, shape: CacheShape) {
    this.#runtime = runtime;
    this.cache = new FlatCache(shape);
    const { heads, keyValueHeads, headWidth } = shape;
    this.#widths = { mixed: heads * headWidth, packed: (heads + 2 * keyValueHeads) * headWidth };
  }

  release(): void {
    this.cache.release();
  }

  begin(firstSlot: number, ranges: readonly TokenRange[], tokens: number): MixLayer {
    const slots: number[] = [];
    const positions: number[] = [];
    for (const [row, { start, end }] of ranges.entries())
      for (let position = start; position < end; position++) {
        slots.push(firstSlot + row);
        positions.push(position);
      }
    const all = [...slots.keys()];
    const widths = this.#widths;
    return (layer, packed, picked) => {
      const { kernels, floats, scratch } = this.cache;
      const rows = picked ?? all;
      const count = picked?.length ?? tokens;
      this.#mixed = atLeast(this.#mixed, count * widths.mixed);
      const mixed = this.#mixed.subarray(0, count * widths.mixed);
      let row = 0;
      for (let first = 0; first < slots.length; first += tokensTogether) {
        const end = Math.min(slots.length, first + tokensTogether);
        floats.set(packed.subarray(first * widths.packed, end * widths.packed), scratch.packed / floatBytes);
        const query = (token: number) => scratch.packed + (token - first) * widths.packed * floatBytes;
        const keys = (token: number) => this.cache.address(slots[token] as number, layer);
        for (let token = first; token < end; token++)
          kernels.store(query(token), keys(token), positions[token] as number);
        const firstRow = row;
        let output = scratch.mixed;
        for (; row < rows.length && (rows[row] as number) < end; row++, output += widths.mixed * floatBytes) {
          const token = rows[row] as number;
          kernels.mix(query(token), keys(token), positions[token] as number, scratch.scores, output);
        }
        mixed.set(floats.subarray(scratch.mixed / floatBytes, output / floatBytes), firstRow * widths.mixed);
      }
      return { mixed: this.#runtime.float(mixed, [count, widths.mixed]) };
    };
  }
}
