import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { importRuntime } from './import-runtime.ts';
import { NativeGate } from './native-gate.ts';
import type { RuntimeChoice, RuntimeName } from './runtime-choice.ts';

export type Feeds = Record<string, Tensor>;

/** A graph that is ready to run. */
export interface Session {
  run(feeds: Feeds): Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void>;
}

/** ONNX Runtime as the engine uses it. */
export interface Runtime {
  name: RuntimeName;
  /** `threads`: how many threads one `run` may use. */
  session(model: Uint8Array): Promise<Session>;
  float(data: Float32Array, dimensions: readonly number[]): Tensor;
  integer(data: BigInt64Array, dimensions: readonly number[]): Tensor;
}

/**
 * Loads the native runtime, or with `auto` the WebAssembly one where the native one cannot be loaded. Throws an
 * `EngineError` with the code `runtime_missing` and the command that installs one where there is none.
 * Thread pools do not spin: two busy pools that spin halve each other.
 *
 * `gate`: what a thread passes on its way into the runtime. Default: one that nobody shuts.
 */
export async function loadRuntime(
  choice: RuntimeChoice,
  threads: number,
  gate = new NativeGate(),
): Promise<Runtime> {
  const { name, ort } = await importRuntime(choice);
  const isNative = name === 'onnxruntime-node';
  if (!isNative) ort.env.wasm.numThreads = threads;
  const options: InferenceSession.SessionOptions = {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
    ...(isNative
      ? { extra: { session: { intra_op: { allow_spinning: '0' } } } }
      : { executionProviders: ['wasm'] }),
  };
  return {
    name,
    session: async (model) => {
      const session = await gate.pass(() => ort.InferenceSession.create(model, options));
      return {
        run: (feeds) => gate.pass(() => session.run(feeds)),
        release: () => gate.pass(() => session.release()),
      };
    },
    float: (data, dimensions) => new ort.Tensor('float32', data, dimensions),
    integer: (data, dimensions) => new ort.Tensor('int64', data, dimensions),
  };
}
