import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { hasCode, messageOf } from '../../util/error.ts';
import { sumOf } from '../../util/sums.ts';
import { EngineError } from '../engine.ts';
import { DeviceTensors } from './device-tensors.ts';
import { type DeviceLock, deviceLock } from './onnx/device-lock.ts';
import { NativeGate } from './onnx/native-gate.ts';
import { giveBack, takeArray } from './onnx/output-memory.ts';
import { type ExternalWeights, type Feeds, type Session, sessionOptions } from './onnx/session.ts';
import { elementsOf } from './weights/architecture.ts';

export type { Feeds, Session } from './onnx/session.ts';

/** Packages that the engine can run on, best first. Optional peers: a client of a remote service needs neither. */
export const runtimeNames = ['onnxruntime-node', 'onnxruntime-web'] as const;

type RuntimeName = (typeof runtimeNames)[number];
export type RuntimeChoice = 'auto' | RuntimeName;

/** Where checkpoints run. The tiny models run on the CPU. */
export const devices = ['cpu', 'webgpu'] as const;
export type Device = (typeof devices)[number];

/** The version of the peers. The graphs use non-standard operators, which differ between versions. */
export const runtimeVersion = '1.30.0';

/**
 * The command that installs a runtime. It skips install scripts, because the script of onnxruntime-node downloads CUDA
 * from outside the registry, which the engine does not use, and fails the installation without network access.
 */
export const installCommand = (name: RuntimeName): string =>
  `npm install --ignore-scripts ${name}@${runtimeVersion}`;

/** The given one; without one the value of `MARTINGALE_RUNTIME`, and `auto` when that is not set. */
export function chosenRuntime(given?: string): RuntimeChoice {
  const chosen = given ?? process.env.MARTINGALE_RUNTIME ?? 'auto';
  const found = ['auto' as const, ...runtimeNames].find((name) => name === chosen);
  if (found !== undefined) return found;
  throw new EngineError(
    'bad_option',
    `${given === undefined ? 'MARTINGALE_RUNTIME' : '`runtime`'} is ${chosen}. Set it to auto, onnxruntime-node or onnxruntime-web.`,
  );
}

/** The parts of ONNX Runtime that the engine uses. */
export interface Runtime {
  name: RuntimeName;
  device: Device;
  session(model: Uint8Array, weights?: ExternalWeights): Promise<Session>;
  float(data: Float32Array, dimensions: readonly number[]): Tensor;
  /**
   * A tensor of data that never changes. On WebGPU a matrix is copied to the device for its first run and stays there;
   * all other inputs and all outputs are copied in each run.
   */
  constant(data: Float32Array, dimensions: readonly number[]): Tensor;
  /** A tensor of 64-bit integers, from whole numbers of at least 0. */
  integer(values: ArrayLike<number>, dimensions: readonly number[]): Tensor;
  /**
   * Tensors for outputs of a run that outlive it, by name: of those that have room in the memory that this thread uses again.
   * `freeAll` gives it back.
   */
  outputs(shapes: Iterable<readonly [string, readonly number[]]>): Feeds;
  /** Gives back what constants take on the device. No session may run any more. */
  close(): Promise<void>;
}

export interface RuntimeOptions {
  /** Guards the calls into the runtime. Default: one that is never shut. */
  gate?: NativeGate;
  /** Default `cpu`. */
  device?: Device;
  /** The lock of the process's device. */
  lock?: DeviceLock;
}

/**
 * Loads a runtime; `auto` takes the native one, or the WebAssembly one when the native one cannot be loaded. Throws an
 * `EngineError` with the code `runtime_missing` and the install command when there is none, and one with the code
 * `device_missing` when there is no WebGPU device.
 * Thread pools do not spin, because two busy pools that spin halve each other's speed.
 *
 * `threads`: threads that one `run` may use on the CPU.
 */
export async function loadRuntime(
  choice: RuntimeChoice,
  threads: number,
  { gate = new NativeGate(), device = 'cpu', lock = deviceLock }: RuntimeOptions = {},
): Promise<Runtime> {
  const { name, ort } = await importRuntime(device === 'webgpu' ? nativeFor(choice) : choice);
  const float = (data: Float32Array, dimensions: readonly number[]) =>
    new ort.Tensor('float32', takesShared ? data : unshared(data), dimensions);
  const shared = {
    name,
    device,
    float,
    integer: (values: ArrayLike<number>, dimensions: readonly number[]) =>
      new ort.Tensor('int64', toInt64(values), dimensions),
    outputs: (): Feeds => ({}),
  };
  if (device === 'webgpu') {
    const tensors = await DeviceTensors.open(ort, (call) => lock.pass(gate, call));
    return {
      ...shared,
      session: (model) => tensors.session(model),
      constant: (data, dimensions) => tensors.constant(float(data, dimensions)),
      close: () => tensors.close(),
    };
  }
  const isNative = name === 'onnxruntime-node';
  if (!isNative) ort.env.wasm.numThreads = threads;
  const options: InferenceSession.SessionOptions = {
    ...sessionOptions,
    intraOpNumThreads: threads,
    ...(isNative
      ? {
          extra: {
            session: { intra_op: { allow_spinning: '0' }, use_device_allocator_for_initializers: '1' },
          },
        }
      : { executionProviders: ['wasm'] }),
  };
  return {
    ...shared,
    session: async (model, weights = new Map()) => {
      const externalData = Array.from(weights, ([path, numbers]) => ({ path, data: bytesOf(numbers) }));
      const bytes = sumOf(externalData, ({ data }) => data.byteLength);
      const own = { externalData, enableCpuMemArena: bytes <= mostArenaBytes };
      const session = await gate.pass(() =>
        ort.InferenceSession.create(model, externalData.length > 0 ? { ...options, ...own } : options),
      );
      return {
        run: (feeds, outputs = {}) => gate.pass(() => runInto(session, feeds, outputs)),
        release: () => gate.pass(() => session.release()),
      };
    },
    constant: float,
    outputs: (shapes) => (isNative ? outputTensors(shapes, float) : {}),
    close: async () => {},
  };
}

async function runInto(session: InferenceSession, feeds: Feeds, outputs: Feeds) {
  const names = Object.keys(outputs);
  if (names.length === 0) return session.run(feeds);
  const fetches = Object.fromEntries(session.outputNames.map((name) => [name, outputs[name] ?? null]));
  const copies = await session.run(feeds, fetches);
  freeAll(names.map((name) => copies[name]?.data as Float32Array));
  return { ...copies, ...outputs };
}

function outputTensors(shapes: Parameters<Runtime['outputs']>[0], float: Runtime['float']): Feeds {
  const tensors: Feeds = {};
  for (const [name, dimensions] of shapes) {
    const array = takeArray(elementsOf(dimensions));
    if (array) tensors[name] = float(array, dimensions);
  }
  return tensors;
}

/** Most bytes of external weights for a session that keeps the memory of a run for the next one. */
const mostArenaBytes = 4 * 1024 ** 2;

/** WebGPU is a part of the native runtime. */
function nativeFor(choice: RuntimeChoice): RuntimeName {
  if (choice !== 'onnxruntime-web') return 'onnxruntime-node';
  throw new EngineError(
    'bad_option',
    'The device webgpu needs the runtime onnxruntime-node, because onnxruntime-web has no WebGPU in Node. Choose the runtime onnxruntime-node or auto, or the device cpu.',
  );
}

/** Deno's native modules do not read shared memory. */
const takesShared = !('Deno' in globalThis);

function bytesOf(numbers: Float32Array): Uint8Array {
  const { buffer, byteOffset, byteLength } = takesShared ? numbers : unshared(numbers);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Written in halves of 32 bits, the lower one first as on all processors of the runtimes: BigInts would be objects. */
function toInt64(values: ArrayLike<number>): BigInt64Array {
  const halves = new Int32Array(2 * values.length);
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number;
    halves[2 * index] = value;
    halves[2 * index + 1] = value / 2 ** 32;
  }
  return new BigInt64Array(halves.buffer);
}

/** A copy of an array in shared memory; any other array itself. */
function unshared(data: Float32Array): Float32Array {
  return data.buffer instanceof SharedArrayBuffer ? data.slice() : data;
}

/**
 * Gives the memory of outputs, or of other large arrays that only the caller has, back at once, so that the next run gets
 * the same memory while the processor still caches it. Left to the garbage collector, megabytes of each run would wait for
 * a collection, and threads would slow each other down by asking the system for memory.
 */
export function freeAll(arrays: Iterable<ArrayBufferView>): void {
  for (const { buffer } of arrays)
    if (buffer instanceof ArrayBuffer && !buffer.detached && !giveBack(buffer)) buffer.transfer(0);
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
        const [reason] = messageOf(error).split('\n', 1);
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
    `The embedded engine cannot load ONNX Runtime: ${problems.join(', ')}. ${remedy}`,
  );
}
