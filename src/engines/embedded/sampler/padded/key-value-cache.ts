import { sumOf } from '../../../../util/sums.ts';
import { freeAll } from '../../runtime.ts';
import { type Architecture, kindOf } from '../../weights/architecture.ts';
import type { SlotCache } from '../cached-attention.ts';
import { blockLength, type KeyValueBlock } from '../prefix-cache.ts';

/** The width of a slot is a multiple of this. */
const widthStep = 32;

/** Most elements of slots that are allocated before they are used, so that few growths copy: 256 MiB. */
const spareSlotElements = 64 * 1024 ** 2;

/** What a layer keeps of each position. */
interface KeptShape {
  /** Keys and values, or the inputs of a convolution. */
  buffers: number;
  heads: number;
  headWidth: number;
}

function keptShapes(architecture: Architecture): KeptShape[] {
  const { layers, width, keyValueHeads, headWidth } = architecture;
  return Array.from({ length: layers }, (_, layer) =>
    kindOf(architecture, layer) === 'convolution'
      ? { buffers: 1, heads: 1, headWidth: width }
      : { buffers: 2, heads: keyValueHeads, headWidth },
  );
}

/** Numbers that a cache keeps of each position of a sequence. */
export const keptPerPosition = (architecture: Architecture): number =>
  sumOf(keptShapes(architecture), ({ buffers, heads, headWidth }) => buffers * heads * headWidth);

interface CachedLayer extends KeptShape {
  /** Each [slot, head, width, head width]. */
  data: Float32Array[];
}

/**
 * Keys and values of the sequences being sampled: for each layer [slot, head, width, head width]. Of a convolution they
 * are its inputs B * x, as one head, of all positions: so a slot can be cut off or copied at any of them. Used slots are
 * adjacent, so that any range of them is one tensor without a copy. The cache grows and shrinks with the sequences.
 */
export class KeyValueCache implements SlotCache {
  readonly blockSize: number;
  readonly mostSlots = Number.POSITIVE_INFINITY;
  #slots = 0;
  #width = 0;
  /** The largest width so far. New memory has room for it, because memory that is not touched costs nothing. */
  #widest = 0;
  /** Positions in each buffer that slots may have used. What follows may be what another cache has left. */
  #size = 0;
  readonly #layers: CachedLayer[];

  constructor(architecture: Architecture) {
    this.#layers = keptShapes(architecture).map((shape) => ({ ...shape, data: empty(shape) }));
    this.blockSize = blockLength * keptPerPosition(architecture);
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
    const size = newSlots * this.#widest;
    for (const layer of this.#layers) {
      const { heads, headWidth, data } = layer;
      const elements = { used: this.#size * heads * headWidth, needed: size * heads * headWidth };
      const widths = { from: this.#width * headWidth, to: newWidth * headWidth };
      layer.data = data.map((buffer) => withRows(buffer, elements, used * heads, widths));
    }
    this.#size = size;
    this.#slots = newSlots;
    this.#width = newWidth;
  }

  /** The number of slots to grow to: about twice as many while slots are small, else just enough. */
  #slotsFor(slots: number, width: number): number {
    if (slots <= this.#slots) return this.#slots;
    const elements = (this.blockSize / blockLength) * Math.max(width, this.#widest);
    const spareSlots = Math.floor(spareSlotElements / elements);
    return Math.max(slots, Math.min(Math.max(this.#slots * 2, 8), slots + spareSlots));
  }

  clear(): void {
    this.#slots = 0;
    this.#width = 0;
    this.#size = 0;
    for (const layer of this.#layers) {
      for (const buffer of layer.data) spare.give(buffer);
      layer.data = empty(layer);
    }
  }

  /** The keys and the values of `count` slots from `first`, each [count, heads, width, head width]. */
  tensors(layer: number, first: number, count: number): { key: Float32Array; value: Float32Array } {
    const own = this.#layerAt(layer);
    const range = [this.#row(own, first, 0), this.#row(own, first + count, 0)] as const;
    const [key, value] = own.data.map((buffer) => buffer.subarray(...range));
    return { key: key as Float32Array, value: value as Float32Array };
  }

  /** The inputs of a layer's convolution in a slot, [width, model width], to be read and written. */
  inputs(layer: number, slot: number): Float32Array {
    const own = this.#layerAt(layer);
    return (own.data[0] as Float32Array).subarray(this.#row(own, slot, 0), this.#row(own, slot + 1, 0));
  }

  /** Writes one token's key, which is at `offset`, and its value, which follows. */
  write(layer: number, slot: number, position: number, packed: Float32Array, offset: number): void {
    const { heads, headWidth: span, data } = this.#layerAt(layer);
    const [key, value] = data as [Float32Array, Float32Array];
    const size = heads * span;
    for (let head = 0; head < heads; head++) {
      let target = ((slot * heads + head) * this.#width + position) * span;
      let source = offset + head * span;
      for (let index = 0; index < span; index++, target++, source++) {
        key[target] = packed[source] as number;
        value[target] = packed[source + size] as number;
      }
    }
  }

  copySlot(from: number, to: number, length: number): void {
    if (from === to) return;
    for (const { layer, buffer, head } of this.#rows()) {
      const source = this.#row(layer, from, head);
      buffer.copyWithin(this.#row(layer, to, head), source, source + length * layer.headWidth);
    }
  }

  /** Copies the block that begins at position `start` of a slot into `block`, or from it. */
  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void {
    let offset = 0;
    for (const { layer, buffer, head } of this.#rows()) {
      const span = blockLength * layer.headWidth;
      const first = this.#row(layer, slot, head) + start * layer.headWidth;
      if (direction === 'into') block.set(buffer.subarray(first, first + span), offset);
      else buffer.set(block.subarray(offset, offset + span), first);
      offset += span;
    }
  }

  /** What a slot has a row of: the heads of all buffers. */
  *#rows(): Generator<{ layer: CachedLayer; buffer: Float32Array; head: number }> {
    for (const layer of this.#layers)
      for (const buffer of layer.data)
        for (let head = 0; head < layer.heads; head++) yield { layer, buffer, head };
  }

  /** Index of a slot's first element for a head. */
  #row({ heads, headWidth }: CachedLayer, slot: number, head: number): number {
    return (slot * heads + head) * this.#width * headWidth;
  }

  #layerAt(layer: number): CachedLayer {
    return this.#layers[layer] as CachedLayer;
  }
}

const empty = ({ buffers }: KeptShape) => Array.from({ length: buffers }, () => new Float32Array(0));

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
