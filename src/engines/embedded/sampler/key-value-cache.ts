import { type Architecture, headWidth } from '../weights/architecture.ts';
import { blockLength, type KeyValueBlock } from './prefix-cache.ts';

/** Slots grow by this many positions. */
const widthStep = 32;

/**
 * Keys and values of the sequences being sampled: for each layer [slot, head, width, head width]. Used slots are
 * adjacent, so that any range of them is one tensor without a copy. The cache grows with the sequences.
 */
export class KeyValueCache {
  readonly #layers: number;
  readonly #heads: number;
  readonly #headWidth: number;
  #slots = 0;
  #width = 0;
  /** The largest width so far. A cleared cache starts with it, because growing copies everything. */
  #widest = 0;
  #keys: Float32Array[] = [];
  #values: Float32Array[] = [];

  constructor(architecture: Architecture) {
    this.#layers = architecture.layers;
    this.#heads = architecture.heads;
    this.#headWidth = headWidth(architecture);
  }

  /** Number of positions in each slot. */
  get width(): number {
    return this.#width;
  }

  /** Makes room for `slots` of `width` positions, and keeps the contents of the first `used` slots. */
  reserve(slots: number, width: number, used: number): void {
    if (slots <= this.#slots && width <= this.#width) return;
    const newSlots = slots <= this.#slots ? this.#slots : Math.max(slots, this.#slots * 2, 8);
    const newWidth = Math.max(this.#width, this.#widest, Math.ceil(width / widthStep) * widthStep);
    this.#widest = newWidth;
    const grow = (old: Float32Array | undefined) => {
      const grown = new Float32Array(newSlots * this.#heads * newWidth * this.#headWidth);
      if (!old) return grown;
      const from = this.#width * this.#headWidth;
      const to = newWidth * this.#headWidth;
      for (let row = 0; row < used * this.#heads; row++)
        grown.set(old.subarray(row * from, (row + 1) * from), row * to);
      return grown;
    };
    for (let layer = 0; layer < this.#layers; layer++) {
      this.#keys[layer] = grow(this.#keys[layer]);
      this.#values[layer] = grow(this.#values[layer]);
    }
    this.#slots = newSlots;
    this.#width = newWidth;
  }

  /** Frees the memory. No slot may be in use. */
  clear(): void {
    this.#slots = 0;
    this.#width = 0;
    this.#keys = [];
    this.#values = [];
  }

  /** The keys and the values of `count` slots from `first`, each [count, heads, width, head width]. */
  tensors(layer: number, first: number, count: number): { key: Float32Array; value: Float32Array } {
    const size = this.#heads * this.#width * this.#headWidth;
    const range = [first * size, (first + count) * size] as const;
    return { key: this.#key(layer).subarray(...range), value: this.#value(layer).subarray(...range) };
  }

  /** Writes one token's key and value from its packed projection (query, key, value side by side) at `offset`. */
  write(layer: number, slot: number, position: number, packed: Float32Array, offset: number): void {
    const key = this.#key(layer);
    const value = this.#value(layer);
    const span = this.#headWidth;
    const model = this.#heads * span;
    for (let head = 0; head < this.#heads; head++) {
      let target = ((slot * this.#heads + head) * this.#width + position) * span;
      let source = offset + model + head * span;
      for (let index = 0; index < span; index++, target++, source++) {
        key[target] = packed[source] as number;
        value[target] = packed[source + model] as number;
      }
    }
  }

  copySlot(from: number, to: number, length: number): void {
    if (from === to) return;
    const span = length * this.#headWidth;
    for (const buffer of [...this.#keys, ...this.#values])
      for (let head = 0; head < this.#heads; head++) {
        const source = this.#row(from, head);
        buffer.copyWithin(this.#row(to, head), source, source + span);
      }
  }

  /** Number of elements in a block. */
  get blockSize(): number {
    return this.#layers * 2 * this.#heads * blockLength * this.#headWidth;
  }

  /** Copies the block that begins at position `start` out of a slot. */
  copyBlockOut(slot: number, start: number, target: KeyValueBlock): void {
    const span = blockLength * this.#headWidth;
    let offset = 0;
    this.#eachRow(slot, (buffer, row) => {
      const from = row + start * this.#headWidth;
      for (let index = 0; index < span; index++) target[offset + index] = buffer[from + index] as number;
      offset += span;
    });
  }

  /** Copies a block into a slot, from position `start` on. */
  copyBlockIn(slot: number, start: number, source: KeyValueBlock): void {
    const span = blockLength * this.#headWidth;
    let offset = 0;
    this.#eachRow(slot, (buffer, row) => {
      const to = row + start * this.#headWidth;
      for (let index = 0; index < span; index++) buffer[to + index] = source[offset + index] as number;
      offset += span;
    });
  }

  #eachRow(slot: number, visit: (buffer: Float32Array, start: number) => void): void {
    for (let layer = 0; layer < this.#layers; layer++)
      for (const buffer of [this.#key(layer), this.#value(layer)])
        for (let head = 0; head < this.#heads; head++) visit(buffer, this.#row(slot, head));
  }

  #row(slot: number, head: number): number {
    return (slot * this.#heads + head) * this.#width * this.#headWidth;
  }

  #key(layer: number): Float32Array {
    return this.#keys[layer] as Float32Array;
  }

  #value(layer: number): Float32Array {
    return this.#values[layer] as Float32Array;
  }
}
