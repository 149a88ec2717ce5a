import { WasmModule } from '../../wasm/wasm-module.ts';
import type { Architecture } from '../../weights/architecture.ts';
import { writeAttention, writeStore } from './attention.ts';
import { writeEmbedding } from './embedding.ts';

/** Functions of WebAssembly on one memory. All arguments but counts and positions are addresses. */
export interface Kernels {
  /** See `writeEmbedding`. */
  embed(addresses: number, output: number, rows: number): void;
  /** See `writeStore`. */
  store(packed: number, cache: number, position: number): void;
  /** See `writeAttention`. */
  mix(query: number, cache: number, position: number, scores: number, output: number): void;
}

/** The compiled functions of each architecture, which all sets of weights share. */
const modules = new Map<string, WebAssembly.Module>();

/** The functions of an architecture. */
export function createKernels(architecture: Architecture, memory: WebAssembly.Memory): Kernels {
  const key = JSON.stringify(architecture);
  const module = modules.get(key) ?? new WebAssembly.Module(write(architecture));
  modules.set(key, module);
  const { embed, store, mix } = new WebAssembly.Instance(module, { environment: { memory } }).exports;
  return { embed, store, mix } as Kernels;
}

function write(architecture: Architecture): Uint8Array<ArrayBuffer> {
  const { width, previousTokens } = architecture;
  const module = new WasmModule();
  module.add('embed', ['addresses', 'output', 'rows'], (code, given) =>
    writeEmbedding(code, { width, tables: 2 + previousTokens }, given),
  );
  module.add('store', ['packed', 'cache', 'position'], (code, given) =>
    writeStore(code, architecture, given),
  );
  module.add('mix', ['query', 'cache', 'position', 'scores', 'output'], (code, given) =>
    writeAttention(code, architecture, given),
  );
  return module.finish();
}
