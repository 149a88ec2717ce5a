import { getOrInsert } from '../../../../util/get-or-insert.ts';
import { WasmModule } from '../../wasm/wasm-module.ts';
import { type AttentionShape, writeAttention, writeStore } from './attention.ts';

/** Functions of WebAssembly on one memory. All arguments but positions are addresses. */
export interface Kernels {
  /** See `writeStore`. */
  store(packed: number, cache: number, position: number): void;
  /** See `writeAttention`. */
  mix(query: number, cache: number, position: number, scores: number, output: number): void;
}

/** The compiled functions of each shape, which all sets of weights share. */
const modules = new Map<string, WebAssembly.Module>();

export function createKernels(shape: AttentionShape, memory: WebAssembly.Memory): Kernels {
  const module = getOrInsert(modules, JSON.stringify(shape), () => new WebAssembly.Module(write(shape)));
  const { store, mix } = new WebAssembly.Instance(module, { environment: { memory } }).exports;
  return { store, mix } as unknown as Kernels;
}

function write(shape: AttentionShape): Uint8Array<ArrayBuffer> {
  const module = new WasmModule();
  module.add('store', ['packed', 'cache', 'position'], (code, given) => writeStore(code, shape, given));
  module.add('mix', ['query', 'cache', 'position', 'scores', 'output'], (code, given) =>
    writeAttention(code, shape, given),
  );
  return module.finish();
}
