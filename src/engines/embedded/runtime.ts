import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { hasCode } from '../../util/error.ts';
import { EngineError } from '../engine.ts';
import { NativeGate } from './threads/native-gate.ts';

/** Packages that the engine can run on, best first. Optional peers: a client of a remote service needs neither. */
export const runtimeNames = ['onnxruntime-node', 'onnxruntime-web'] as const;

type RuntimeName = (typeof runtimeNames)[number];
export type RuntimeChoice = 'auto' | RuntimeName;

/** The version of the peers. The graphs use non-standard operators, which differ between versions. */
export const runtimeVersion = '1.30.0';

/**
 * The command that installs a runtime. It skips install scripts, because the script of onnxruntime-node downloads CUDA
 * from outside the registry, which the engine does not use, and fails the installation without network access.
 */
export const installCommand = (name: RuntimeName): string =>
  `npm install --ignore-scripts ${name}@${runtimeVersion}`;

/** The value of `MARTINGALE_RUNTIME`; `auto` when it is not set. */
export function runtimeOfEnvironment(): RuntimeChoice {
  const chosen = process.env.MARTINGALE_RUNTIME ?? 'auto';
  const found = ['auto' as const, ...runtimeNames].find((name) => name === chosen);
  if (found !== undefined) return found;
  throw new EngineError(
    'bad_option',
    `MARTINGALE_RUNTIME must be auto, onnxruntime-node or onnxruntime-web, not ${chosen}`,
  );
}

export type Feeds = Record<string, Tensor>;

/** A loaded graph. */
export interface Session {
  /**
   * Returns the outputs by name. They are copies: onnxruntime-node copies every output after the run, even one that it
   * has written to a tensor of the caller, so that such tensors save nothing, and a cache is never an output.
   */
  run(feeds: Feeds): Promise<InferenceSession.OnnxValueMapType>;
  release(): Promise<void>;
}

/** The parts of ONNX Runtime that the engine uses. */
export interface Runtime {
  name: RuntimeName;
  session(model: Uint8Array): Promise<Session>;
  float(data: Float32Array, dimensions: readonly number[]): Tensor;
  integer(data: BigInt64Array, dimensions: readonly number[]): Tensor;
}

/**
 * Loads a runtime; `auto` takes the native one, or the WebAssembly one when the native one cannot be loaded. Throws an
 * `EngineError` with the code `runtime_missing` and the install command when there is none.
 * Thread pools do not spin, because two busy pools that spin halve each other's speed.
 *
 * `threads`: threads that one `run` may use. `gate`: guards the calls into the runtime; by default it is never shut.
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
    float: (data, dimensions) => new ort.Tensor('float32', takesShared ? data : unshared(data), dimensions),
    integer: (data, dimensions) => new ort.Tensor('int64', data, dimensions),
  };
}

/** Deno's native modules do not read shared memory. */
const takesShared = !('Deno' in globalThis);

/** A copy of an array in shared memory; any other array itself. */
function unshared(data: Float32Array): Float32Array {
  return data.buffer instanceof SharedArrayBuffer ? data.slice() : data;
}

/**
 * Gives the memory of outputs back at once, so that the next run gets the same memory while the processor still caches
 * it. Left to the garbage collector, megabytes of each run would wait for a collection, and threads would slow each other
 * down by asking the system for memory.
 */
export function freeAll(arrays: Iterable<Float32Array>): void {
  for (const { buffer } of arrays) if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}

const imports = {
  'onnxruntime-node': () => import('onnxruntime-node'),
  'onnxruntime-web': () => import('onnxruntime-web'),
} as const;

/** Imports the chosen runtime; for `auto`, the first that can be imported. */
async function importRuntime(choice: RuntimeChoice) {
  const chosen = choice === 'auto' ? runtimeNames : [choice];
  const problems: string[] = [];
  let missing: RuntimeName | undefined;
  for (const name of chosen) {
    try {
      return { name, ort: await imports[name]() };
    } catch (error) {
      // Another missing module is one that an installed runtime imports.
      if (hasCode(error, 'ERR_MODULE_NOT_FOUND') && error.message.includes(`'${name}'`)) {
        missing ??= name;
        problems.push(`${name} is not installed`);
      } else {
        const [reason] = (error instanceof Error ? error.message : String(error)).split('\n', 1);
        problems.push(`${name} cannot be loaded here (${reason})`);
      }
    }
  }
  const other = runtimeNames.find((name) => !chosen.includes(name));
  let remedy = 'Install them again, or run the engine on another machine.';
  if (missing) remedy = `Run: ${installCommand(missing)}`;
  else if (other) remedy = `Choose the runtime ${other} instead, after: ${installCommand(other)}`;
  throw new EngineError(
    'runtime_missing',
    `the embedded engine cannot load ONNX Runtime: ${problems.join(', ')}. ${remedy}`,
  );
}
