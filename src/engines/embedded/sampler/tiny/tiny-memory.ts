import { EngineError } from '../../../engine.ts';
import { embeddingTables } from '../../checkpoint/tensors.ts';
import { trainedShapes } from '../../runner/adapter-vector.ts';
import { createMemory, growMemory, Layout, mostMemoryBytes } from '../../wasm/wasm-memory.ts';
import type { Architecture } from '../../weights/architecture.ts';
import { blockBytes, blockPositions, cacheBytes } from './attention.ts';
import { createKernels, type Kernels } from './kernels.ts';

/** Bytes of a number. */
const size = 4;

/** Most bytes of slots that are kept while none is in use. */
const mostIdleBytes = 64 * 1024 ** 2;

/** Most tokens that are computed at once. */
export const tokensPerPart = 1024;

/** Addresses of what is computed for the tokens of a part. */
interface Scratch {
  /** For each token the addresses of the rows that are its embedding. */
  addresses: number;
  embedded: number;
  /** Query, key and value. */
  packed: number;
  /** What attention gives. */
  mixed: number;
  /** States of the tokens whose logits are needed. */
  picked: number;
  /** Scores of a token's attention. */
  scores: number;
}

/**
 * The memory of WebAssembly for one set of weights of a tiny model: the tables of its embeddings, what a step computes,
 * and the slots with the keys and values of sequences. A slot has room for the longest sequence. The system provides its
 * pages when they are first written, so positions that are not used take none.
 */
export class TinyMemory {
  readonly architecture: Architecture;
  readonly scratch: Scratch;
  readonly #tables = new Map<string, number>();
  readonly #layerBytes: number;
  readonly #slotBytes: number;
  readonly #firstSlot: number;
  #memory: WebAssembly.Memory;
  #kernels: Kernels;
  #floats: Float32Array;
  #integers: Int32Array;
  /** Bytes of slots that may have been written. */
  #written = 0;

  constructor(architecture: Architecture, weights: Float32Array) {
    this.architecture = architecture;
    this.#layerBytes = 2 * cacheBytes(architecture);
    this.#slotBytes = architecture.layers * this.#layerBytes;
    const layout = new Layout();
    const names = new Set(embeddingTables(architecture).map(({ name }) => name));
    const tables = trainedShapes(architecture, 'all').filter(({ name }) => names.has(name));
    for (const { name, size: elements } of tables) this.#tables.set(name, layout.add(elements));
    this.scratch = layOut(architecture, layout);
    this.#firstSlot = layout.end;
    this.#memory = sparesOf(architecture).pop() ?? createMemory(this.cache(1, 0));
    this.#kernels = createKernels(architecture, this.#memory);
    this.#floats = new Float32Array(this.#memory.buffer);
    this.#integers = new Int32Array(this.#memory.buffer);
    for (const { name, offset, size: elements } of tables)
      this.#floats.set(weights.subarray(offset, offset + elements), this.table(name) / size);
  }

  /** Most slots that `reserve` can provide. */
  get mostSlots(): number {
    return Math.floor((mostMemoryBytes - this.#firstSlot) / this.#slotBytes);
  }

  get kernels(): Kernels {
    return this.#kernels;
  }

  /** The address of a table of embeddings. */
  table(name: string): number {
    const address = this.#tables.get(name);
    if (address === undefined) throw new Error(`the architecture has no table ${name}`);
    return address;
  }

  /** The address of a slot's keys and values of a layer. */
  cache(slot: number, layer: number): number {
    return this.#firstSlot + slot * this.#slotBytes + layer * this.#layerBytes;
  }

  /** The whole memory, until `reserve` or `shrink`. */
  get floats(): Float32Array {
    return this.#floats;
  }

  get integers(): Int32Array {
    return this.#integers;
  }

  /** The elements from an address. */
  view(address: number, elements: number): Float32Array {
    return this.#floats.subarray(address / size, address / size + elements);
  }

  /** Copies rows of states, [rows, width], side by side. */
  pick(states: Float32Array, rows: readonly number[]): Float32Array {
    const { width } = this.architecture;
    const picked = this.view(this.scratch.picked, Math.max(2, rows.length) * width);
    for (const [index, row] of rows.entries())
      picked.set(states.subarray(row * width, (row + 1) * width), index * width);
    return picked;
  }

  /** The addresses of what a slot has of the block at a position: for each layer its keys, then its values. */
  blocks(slot: number, position: number): number[] {
    const { layers } = this.architecture;
    const offset = Math.floor(position / blockPositions) * blockBytes(this.architecture);
    return Array.from({ length: layers }, (_, layer) => this.cache(slot, layer) + offset).flatMap((keys) => [
      keys,
      keys + cacheBytes(this.architecture),
    ]);
  }

  /**
   * Provides `slots` with `width` writable positions each; existing slots keep their contents. The first slot always
   * exists.
   */
  reserve(slots: number, width: number): void {
    const blocks = Math.ceil(width / blockPositions);
    const { layers } = this.architecture;
    this.#written = Math.max(this.#written, slots * blocks * layers * 2 * blockBytes(this.architecture));
    const bytes = this.cache(slots, 0);
    if (bytes <= this.#memory.buffer.byteLength) return;
    growMemory(this.#memory, bytes);
    this.#view();
  }

  /** Gives back the memory of all slots but the first if it is much. None of them may be in use. */
  shrink(): void {
    if (this.#written <= mostIdleBytes) return;
    let memory: WebAssembly.Memory;
    try {
      memory = createMemory(this.cache(1, 0));
    } catch (error) {
      // Without room for a second memory, the first one stays.
      if (EngineError.isInstance(error)) return;
      throw error;
    }
    this.#written = 0;
    new Uint8Array(memory.buffer).set(new Uint8Array(this.#memory.buffer, 0, this.cache(1, 0)));
    this.#memory = memory;
    this.#kernels = createKernels(this.architecture, this.#memory);
    this.#view();
  }

  /** Gives the memory to the next set of weights. Nothing may be called after it. */
  release(): void {
    const spares = sparesOf(this.architecture);
    if (spares.length < sparesKept && this.#written <= mostIdleBytes) spares.push(this.#memory);
  }

  #view(): void {
    this.#floats = new Float32Array(this.#memory.buffer);
    this.#integers = new Int32Array(this.#memory.buffer);
  }
}

/**
 * Memories that were released, by architecture. Each policy has a memory of its own, and new ones would make V8 collect
 * the whole heap and the system provide all pages again.
 */
const spares = new Map<string, WebAssembly.Memory[]>();
const sparesKept = 2;

function sparesOf(architecture: Architecture): WebAssembly.Memory[] {
  const key = JSON.stringify(architecture);
  const own = spares.get(key) ?? [];
  spares.set(key, own);
  return own;
}

function layOut({ width, heads, previousTokens, contextLength }: Architecture, layout: Layout): Scratch {
  const take = (elements: number) => layout.add(elements);
  return {
    addresses: take(tokensPerPart * (2 + previousTokens)),
    embedded: take(tokensPerPart * width),
    packed: take(tokensPerPart * 3 * width),
    mixed: take(tokensPerPart * width),
    picked: take(tokensPerPart * width),
    scores: take(heads * Math.ceil(contextLength / blockPositions) * blockPositions),
  };
}
