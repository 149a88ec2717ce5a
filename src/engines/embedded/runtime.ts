import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { EngineError } from '../engine-error.ts';
import { NativeGate } from './native-gate.ts';

export type Feeds = Record<string, Tensor>;

/** A graph that is ready to run. */
export interface Session {
  run(feeds: Feeds): Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void>;
}

/** ONNX Runtime as the engine uses it. */
export interface Runtime {
  name: 'onnxruntime-node' | 'onnxruntime-web';
  /** `threads`: how many threads one `run` may use. */
  session(model: Uint8Array): Promise<Session>;
  float(data: Float32Array, dimensions: readonly number[]): Tensor;
  integer(data: BigInt64Array, dimensions: readonly number[]): Tensor;
}

export type RuntimeChoice = 'auto' | Runtime['name'];

/**
 * Loads the native runtime, or the WebAssembly one where the native one is absent (`auto`).
 * Thread pools do not spin: two busy pools that spin halve each other.
 *
 * `gate`: what a thread passes on its way into the runtime. Default: one that nobody shuts.
 */
export async function loadRuntime(
  choice: RuntimeChoice,
  threads: number,
  gate = new NativeGate(),
): Promise<Runtime> {
  const native = choice === 'onnxruntime-web' ? undefined : await importNative();
  if (!native && choice === 'onnxruntime-node')
    throw new EngineError(
      'runtime_missing',
      'onnxruntime-node cannot be loaded here; install it, or choose onnxruntime-web',
    );
  const ort = native ?? (await import('onnxruntime-web'));
  if (!native) ort.env.wasm.numThreads = threads;
  const options: InferenceSession.SessionOptions = {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
    ...(native
      ? { extra: { session: { intra_op: { allow_spinning: '0' } } } }
      : { executionProviders: ['wasm'] }),
  };
  return {
    name: native ? 'onnxruntime-node' : 'onnxruntime-web',
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

async function importNative() {
  try {
    return await import('onnxruntime-node');
  } catch {
    return undefined;
  }
}
