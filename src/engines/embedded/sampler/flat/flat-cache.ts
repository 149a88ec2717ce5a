import { getOrInsert } from '../../../../util/get-or-insert.ts';
import { createMemory, floatBytes, growMemory, Layout, mostMemoryBytes } from '../../wasm/wasm-memory.ts';
import type { SlotCache } from '../cached-attention.ts';
import type { KeyValueBlock } from '../prefix-cache.ts';
import { type AttentionShape, blockBytes, blockPositions, cacheBytes } from './attention.ts';
import { createKernels, type Kernels } from './kernels.ts';

/** Most bytes of slots that are kept while none is in use. */
const mostIdleBytes = 64 * 1024 ** 2;

/** Most tokens that are in the memory at once beside the slots. */
export const tokensTogether = 64;

/** Addresses of the values that are computed for some tokens. */
interface Scratch {
  /** Query, key and value of each. */
  packed: number;
  /** What attention gives them, and one of them twice. */
  mixed: number;
  /** Scores of a token's attention. */
  scores: number;
}

interface OpenMemory {
  memory: WebAssembly.Memory;
  /** The whole memory, as numbers. */
  floats: Float32Array;
  kernels: Kernels;
}

/** What a flat cache needs to know of an architecture. */
export interface CacheShape extends AttentionShape {
  layers: number;
}

/**
 * Slots in a memory of WebAssembly. A slot has room for the longest sequence: the system provides its pages when they are
 * first written, so positions that are not used take none, and no step reads them.
 */
export class FlatCache implements SlotCache {
  readonly blockSize: number;
  readonly mostSlots: number;
  readonly scratch: Scratch;
  readonly #shape: CacheShape;
  readonly #layerBytes: number;
  readonly #firstSlot: number;
  #open: OpenMemory | null = null;
  /** Bytes of slots that may have been written. */
  #written = 0;

  constructor({ layers, heads, keyValueHeads, headWidth, contextLength }: CacheShape) {
    this.#shape = { layers, heads, keyValueHeads, headWidth, contextLength };
    this.#layerBytes = 2 * cacheBytes(this.#shape);
    this.blockSize = (layers * 2 * blockBytes(this.#shape)) / floatBytes;
    const layout = new Layout();
    this.scratch = {
      packed: layout.add(tokensTogether * (heads + 2 * keyValueHeads) * headWidth),
      mixed: layout.add((tokensTogether + 1) * heads * headWidth),
      scores: layout.add(heads * Math.ceil(contextLength / blockPositions) * blockPositions),
    };
    this.#firstSlot = layout.end;
    this.mostSlots = Math.floor((mostMemoryBytes - this.#firstSlot) / (layers * this.#layerBytes));
  }

  get kernels(): Kernels {
    return this.#opened.kernels;
  }

  /** The whole memory, until `reserve` or `clear`. */
  get floats(): Float32Array {
    return this.#opened.floats;
  }

  /** The address of a slot's keys and values of a layer. */
  address(slot: number, layer: number): number {
    return this.#firstSlot + (slot * this.#shape.layers + layer) * this.#layerBytes;
  }

  reserve(slots: number, width: number): void {
    const blocks = Math.ceil(width / blockPositions);
    this.#written = Math.max(this.#written, slots * blocks * this.blockSize * floatBytes);
    const bytes = this.address(slots, 0);
    const memory = this.#open?.memory ?? sparesOf(this.#shape).pop() ?? createMemory(bytes);
    growMemory(memory, bytes);
    if (this.#open?.floats.buffer === memory.buffer) return;
    const kernels = this.#open?.kernels ?? createKernels(this.#shape, memory);
    this.#open = { memory, floats: new Float32Array(memory.buffer), kernels };
  }

  /** Keeps a little memory for the next sequences. */
  clear(): void {
    if (this.#written > mostIdleBytes) this.release();
  }

  /** Gives the memory to the next set of weights, or back if it is much. */
  release(): void {
    const spares = sparesOf(this.#shape);
    const isKept = spares.length < sparesKept && this.#written <= mostIdleBytes;
    if (this.#open && isKept) spares.push(this.#open.memory);
    this.#open = null;
    this.#written = 0;
  }

  copySlot(from: number, to: number, length: number): void {
    if (from === to) return;
    const elements = (Math.ceil(length / blockPositions) * blockBytes(this.#shape)) / floatBytes;
    const targets = this.#blocks(to, 0);
    for (const [index, source] of this.#blocks(from, 0).entries())
      this.floats.copyWithin(targets[index] as number, source, source + elements);
  }

  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void {
    const elements = blockBytes(this.#shape) / floatBytes;
    for (const [index, offset] of this.#blocks(slot, start).entries()) {
      const cached = this.floats.subarray(offset, offset + elements);
      const kept = block.subarray(index * elements, (index + 1) * elements);
      if (direction === 'into') kept.set(cached);
      else cached.set(kept);
    }
  }

  /** Where a slot has the block at a position, in elements: for each layer its keys, then its values. */
  #blocks(slot: number, position: number): number[] {
    const bytes = Math.floor(position / blockPositions) * blockBytes(this.#shape);
    return Array.from(
      { length: this.#shape.layers },
      (_, layer) => this.address(slot, layer) + bytes,
    ).flatMap((keys) => [keys / floatBytes, (keys + cacheBytes(this.#shape)) / floatBytes]);
  }

  get #opened(): OpenMemory {
    if (!this.#open) throw new Error('the cache has no slots');
    return this.#open;
  }
}

/**
 * Memories that were released, by shape. Each policy has a memory of its own, and new ones would make V8 collect the whole
 * heap and the system provide all pages again.
 */
const spares = new Map<string, WebAssembly.Memory[]>();
const sparesKept = 2;

const sparesOf = (shape: CacheShape): WebAssembly.Memory[] =>
  getOrInsert(spares, JSON.stringify(shape), () => []);
