import { freeAll } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { SlotCache } from './decoder.ts';
import { blockLength, type KeyValueBlock } from './prefix-cache.ts';

/** The width of a slot is a multiple of this. */
const widthStep = 32;

/** Most elements of slots that are allocated before they are used, so that few growths copy: 256 MiB. */
const spareSlotElements = 64 * 1024 ** 2;

/**
 * Keys and values of the sequences being sampled: for each layer [slot, head, width, head width]. Used slots are
 * adjacent, so that any range of them is one tensor without a copy. The cache grows and shrinks with the sequences.
 */
export class KeyValueCache implements SlotCache {
  /** Number of elements in a block. */
  readonly blockSize: number;
  readonly mostSlots = Number.POSITIVE_INFINITY;
  readonly #heads: number;
  readonly #headWidth: number;
  #slots = 0;
  #width = 0;
  /** The largest width so far. New memory has room for it, because memory that is not touched costs nothing. */
  #widest = 0;
  /** Elements of each buffer that slots may have used. What follows may be what another cache has left. */
  #size = 0;
  #layers: { key: Float32Array; value: Float32Array }[];

  constructor(architecture: Architecture) {
    this.#heads = architecture.keyValueHeads;
    this.#headWidth = architecture.headWidth;
    this.#layers = Array.from({ length: architecture.layers }, empty);
    this.blockSize = architecture.layers * 2 * blockLength * this.#heads * this.#headWidth;
  }

  /** Number of positions in each slot. */
  get width(): number {
    return this.#width;
  }

  /**
   * Provides `slots` of at least `width` positions, and keeps the first `used` slots, as far as they still fit. A step
   * reads whole slots, so that their width follows the longest sequence, in both directions.
   */
  reserve(slots: number, width: number, used: number): void {
    const needed = Math.ceil(width / widthStep) * widthStep;
    // One spare step stays, so that lengths around a multiple of it do not move the contents again and again.
    const isWidthKept = needed <= this.#width && needed >= this.#width - widthStep;
    const newWidth = isWidthKept ? this.#width : needed;
    const newSlots = this.#slotsFor(slots, newWidth);
    if (newSlots === this.#slots && newWidth === this.#width) return;
    this.#widest = Math.max(this.#widest, newWidth);
    const rows = used * this.#heads;
    const from = this.#width * this.#headWidth;
    const to = newWidth * this.#headWidth;
    const size = newSlots * this.#heads * this.#widest * this.#headWidth;
    this.#layers = this.#layers.map(({ key, value }) => ({
      key: withRows(key, { used: this.#size, needed: size }, rows, { from, to }),
      value: withRows(value, { used: this.#size, needed: size }, rows, { from, to }),
    }));
    this.#size = size;
    this.#slots = newSlots;
    this.#width = newWidth;
  }

  /** As many slots as there are, or twice as many if slots are small. */
  #slotsFor(slots: number, width: number): number {
    if (slots <= this.#slots) return this.#slots;
    const elements = (this.blockSize / blockLength) * Math.max(width, this.#widest);
    const spareSlots = Math.floor(spareSlotElements / elements);
    return Math.max(slots, Math.min(Math.max(this.#slots * 2, 8), slots + spareSlots));
  }

  /** Gives the memory back. No slot may be in use. */
  clear(): void {
    this.#slots = 0;
    this.#width = 0;
    this.#size = 0;
    for (const buffer of this.#buffers()) spare.give(buffer);
    this.#layers = this.#layers.map(empty);
  }

  /** The keys and the values of `count` slots from `first`, each [count, heads, width, head width]. */
  tensors(layer: number, first: number, count: number): { key: Float32Array; value: Float32Array } {
    const { key, value } = this.#layerAt(layer);
    const range = [this.#row(first, 0), this.#row(first + count, 0)] as const;
    return { key: key.subarray(...range), value: value.subarray(...range) };
  }

  /** Writes one token's key, which is at `offset`, and its value, which follows. */
  write(layer: number, slot: number, position: number, packed: Float32Array, offset: number): void {
    const { key, value } = this.#layerAt(layer);
    const span = this.#headWidth;
    const size = this.#heads * span;
    for (let head = 0; head < this.#heads; head++) {
      let target = ((slot * this.#heads + head) * this.#width + position) * span;
      let source = offset + head * span;
      for (let index = 0; index < span; index++, target++, source++) {
        key[target] = packed[source] as number;
        value[target] = packed[source + size] as number;
      }
    }
  }

  copySlot(from: number, to: number, length: number): void {
    if (from === to) return;
    const span = length * this.#headWidth;
    for (const buffer of this.#buffers())
      for (let head = 0; head < this.#heads; head++) {
        const source = this.#row(from, head);
        buffer.copyWithin(this.#row(to, head), source, source + span);
      }
  }

  /** Copies the block that begins at position `start` of a slot into `block`, or from it. */
  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void {
    const span = blockLength * this.#headWidth;
    let offset = 0;
    for (const buffer of this.#buffers())
      for (let head = 0; head < this.#heads; head++, offset += span) {
        const first = this.#row(slot, head) + start * this.#headWidth;
        if (direction === 'into') block.set(buffer.subarray(first, first + span), offset);
        else buffer.set(block.subarray(offset, offset + span), first);
      }
  }

  #buffers(): Float32Array[] {
    return this.#layers.flatMap(({ key, value }) => [key, value]);
  }

  /** Index of a slot's first element for a head. */
  #row(slot: number, head: number): number {
    return (slot * this.#heads + head) * this.#width * this.#headWidth;
  }

  #layerAt(layer: number): { key: Float32Array; value: Float32Array } {
    return this.#layers[layer] as { key: Float32Array; value: Float32Array };
  }
}

const empty = () => ({ key: new Float32Array(0), value: new Float32Array(0) });

/** Moves the first `rows` rows of `from` elements so that each has `to`, in the same memory if that is large enough. */
function withRows(
  buffer: Float32Array,
  { used, needed }: { used: number; needed: number },
  rows: number,
  { from, to }: { from: number; to: number },
): Float32Array {
  const kept = Math.min(from, to);
  if (buffer.length < needed) {
    const grown = spare.take(needed);
    for (let row = 0; row < rows; row++) grown.set(buffer.subarray(row * from, row * from + kept), row * to);
    freeAll([buffer]);
    return grown;
  }
  buffer.fill(0, used, needed);
  if (to < from)
    for (let row = 1; row < rows; row++) buffer.copyWithin(row * to, row * from, row * from + kept);
  else if (to > from)
    for (let row = rows - 1; row > 0; row--) buffer.copyWithin(row * to, row * from, row * from + kept);
  return buffer;
}

/** Most elements of the memory that a thread keeps for its next cache: 64 MiB. */
const maxSpareElements = 16 * 1024 ** 2;

/**
 * The memory of cleared caches, for the next caches of this thread: every checkpoint has a cache of its own, and V8
 * collects the whole heap whenever megabytes have come and gone.
 */
class SpareMemory {
  /** The smallest first. */
  readonly #buffers: Float32Array[] = [];
  #elements = 0;

  /**
   * Returns at least `size` elements; the first `size` are 0. Takes the largest kept buffer, which can grow longest, or
   * a new one. Attention multiplies positions that are not written yet by 0, which would not hide the NaN of another
   * checkpoint.
   */
  take(size: number): Float32Array {
    const largest = this.#buffers.at(-1);
    if (!largest || largest.length < size) return new Float32Array(size);
    this.#buffers.pop();
    this.#elements -= largest.length;
    return largest.fill(0, 0, size);
  }

  /** Keeps a buffer, and frees the smallest ones beyond the limit. */
  give(buffer: Float32Array): void {
    if (buffer.length === 0) return;
    this.#buffers.push(buffer);
    this.#buffers.sort((one, other) => one.length - other.length);
    this.#elements += buffer.length;
    while (this.#elements > maxSpareElements) {
      const smallest = this.#buffers.shift();
      if (!smallest) return;
      this.#elements -= smallest.length;
      freeAll([smallest]);
    }
  }
}

const spare = new SpareMemory();
