import { EngineError } from '../../engine.ts';

export const floatBytes = Float32Array.BYTES_PER_ELEMENT;
const pageBytes = 64 * 1024;
/** Most bytes of a memory: addresses have 32 bits. */
export const mostMemoryBytes = 2 ** 32 - pageBytes;

/** Addresses are multiples of this: a line of the processor's caches. */
const alignment = 64;

/** Divides a memory into parts. */
export class Layout {
  #end = 0;

  /** Bytes of all parts. */
  get end(): number {
    return this.#end;
  }

  /** The address of a new part for numbers of 32 bits. */
  add(elements: number): number {
    const address = this.#end;
    this.#end += Math.ceil((elements * floatBytes) / alignment) * alignment;
    return address;
  }
}

/** A memory of at least `bytes`, which are 0. Throws an `EngineError` if there is none. */
export function createMemory(bytes: number, { isShared = false } = {}): WebAssembly.Memory {
  const initial = Math.ceil(bytes / pageBytes);
  return unlessOutOfMemory(
    () => new WebAssembly.Memory(isShared ? { initial, maximum: initial, shared: true } : { initial }),
  );
}

/** Grows a memory to at least `bytes`. Throws an `EngineError` if that cannot be. */
export function growMemory(memory: WebAssembly.Memory, bytes: number): void {
  const more = Math.ceil((bytes - memory.buffer.byteLength) / pageBytes);
  if (more > 0) unlessOutOfMemory(() => memory.grow(more));
}

function unlessOutOfMemory<Result>(provide: () => Result): Result {
  try {
    return provide();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new EngineError(
      'out_of_memory',
      `The engine gets no memory for WebAssembly (${error.message}). Each memory reserves 10 GB of address space, not of real memory. Raise the limit of addresses (ulimit -v), or start Node with --disable-wasm-trap-handler.`,
      { cause: error },
    );
  }
}
