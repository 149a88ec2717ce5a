/** The parts of WebAssembly that are used. Node's types have none, and the types of browsers declare much else. */
declare namespace WebAssembly {
  class Memory {
    constructor(descriptor: { initial: number; maximum?: number; shared?: boolean });
    /** A `SharedArrayBuffer` if the memory is shared. */
    readonly buffer: ArrayBuffer;
    /** Adds pages of 64 KiB. Earlier buffers are detached. Throws a `RangeError` if there is no memory. */
    grow(pages: number): number;
  }
  class Module {
    constructor(bytes: Uint8Array<ArrayBuffer>);
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, Memory>>);
    readonly exports: Record<string, unknown>;
  }
  function validate(bytes: Uint8Array<ArrayBuffer>): boolean;
}
