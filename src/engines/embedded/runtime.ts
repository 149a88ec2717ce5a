import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { hasCode } from '../../util/error.ts';
import { EngineError } from '../engine.ts';
import { NativeGate } from './threads/native-gate.ts';

/** Packages that the engine can run on, best first. Optional peers: a client of a remote service needs neither. */
export const runtimeNames = ['onnxruntime-node', 'onnxruntime-web'] as const;

export type RuntimeName = (typeof runtimeNames)[number];
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
    float: (data, dimensions) => new ort.Tensor('float32', data, dimensions),
    integer: (data, dimensions) => new ort.Tensor('int64', data, dimensions),
  };
}

const imports = {
  'onnxruntime-node': () => import('onnxruntime-node'),
  'onnxruntime-web': () => import('onnxruntime-web'),
} as const;

type Imported = { name: RuntimeName; ort: Awaited<ReturnType<(typeof imports)[RuntimeName]>> };

/** Imports the chosen runtime; for `auto`, the first that can be imported. */
export async function importRuntime(choice: RuntimeChoice): Promise<Imported> {
  const faults: Fault[] = [];
  for (const name of choice === 'auto' ? runtimeNames : [choice]) {
    try {
      return { name, ort: await imports[name]() };
    } catch (error) {
      faults.push({ name, reason: isNotInstalled(error, name) ? undefined : reasonOf(error) });
    }
  }
  throw new EngineError(
    'runtime_missing',
    `the embedded engine cannot load ONNX Runtime: ${faults.map(describe).join(', ')}. ${remedy(faults)}`,
  );
}

interface Fault {
  name: RuntimeName;
  /** Why an installed package cannot be loaded; undefined for one that is not installed. */
  reason: string | undefined;
}

const describe = ({ name, reason }: Fault): string =>
  reason === undefined ? `${name} is not installed` : `${name} cannot be loaded here (${reason})`;

function remedy(faults: readonly Fault[]): string {
  const absent = faults.find(({ reason }) => reason === undefined)?.name;
  if (absent !== undefined) return `Run: ${installCommand(absent)}`;
  const other = runtimeNames.find((name) => faults.every((fault) => fault.name !== name));
  return other === undefined
    ? 'Install them again, or run the engine on another machine.'
    : `Choose the runtime ${other} instead, after: ${installCommand(other)}`;
}

/** Whether this package itself is missing, not one that it imports. */
const isNotInstalled = (error: unknown, name: RuntimeName): boolean =>
  hasCode(error, 'ERR_MODULE_NOT_FOUND') && error.message.includes(`'${name}'`);

const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';
