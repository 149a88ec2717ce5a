import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { messageOf } from '../../util/error.ts';
import { EngineError } from '../engine.ts';
import { Graph } from './onnx/graph.ts';
import { type Feeds, type Session, sessionOptions } from './onnx/session.ts';

/** The part of ONNX Runtime that creates sessions. */
interface OnnxRuntime {
  InferenceSession: {
    create(model: Uint8Array, options: InferenceSession.SessionOptions): Promise<InferenceSession>;
  };
}

/** Makes a call into the runtime when no other thread does. */
type Guard = <Result>(call: () => Promise<Result>) => Promise<Result>;

const options: InferenceSession.SessionOptions = {
  executionProviders: ['webgpu'],
  ...sessionOptions,
  intraOpNumThreads: 1,
  // Without this, nodes that have no kernel on the device run on the CPU without a word.
  extra: { session: { disable_cpu_ep_fallback: '1' } },
};

/** Sessions on WebGPU, and the matrices that stay on the device for all of them. */
export class DeviceTensors {
  readonly #ort: OnnxRuntime;
  readonly #guard: Guard;
  /** Copies a matrix to the device. */
  readonly #upload: InferenceSession;
  readonly #constants = new WeakSet<Tensor>();
  /** Copies on the device, by the data of the matrix. */
  readonly #copies = new Map<Tensor.DataType, Tensor>();

  private constructor(ort: OnnxRuntime, guard: Guard, upload: InferenceSession) {
    this.#ort = ort;
    this.#guard = guard;
    this.#upload = upload;
  }

  /** Throws an `EngineError` (`device_missing`) when there is no device. */
  static async open(ort: OnnxRuntime, guard: Guard): Promise<DeviceTensors> {
    const graph = new Graph();
    graph.input('matrix', 'float32', ['rows', 'columns']);
    graph.output('copy', graph.op('Identity', ['matrix']), ['rows', 'columns']);
    const onDevice = { ...options, preferredOutputLocation: 'gpu-buffer' } as const;
    try {
      const upload = await guard(() => ort.InferenceSession.create(graph.finish(), onDevice));
      return new DeviceTensors(ort, guard, upload);
    } catch (error) {
      throw deviceMissing(error);
    }
  }

  constant(tensor: Tensor): Tensor {
    if (tensor.dims.length === 2) this.#constants.add(tensor);
    return tensor;
  }

  async session(model: Uint8Array): Promise<Session> {
    const session = await this.#guard(() => this.#ort.InferenceSession.create(model, options));
    return {
      run: (feeds) => this.#guard(async () => session.run(await this.#onDevice(feeds))),
      release: () => this.#guard(() => session.release()),
    };
  }

  async close(): Promise<void> {
    await this.#guard(async () => {
      for (const copy of this.#copies.values()) copy.dispose();
      this.#copies.clear();
      await this.#upload.release();
    });
  }

  /** The feeds with the constants among them on the device. */
  async #onDevice(feeds: Feeds): Promise<Feeds> {
    const moved: Feeds = { ...feeds };
    for (const [name, tensor] of Object.entries(feeds))
      if (this.#constants.has(tensor)) moved[name] = await this.#copyOf(tensor);
    return moved;
  }

  async #copyOf(tensor: Tensor): Promise<Tensor> {
    const kept = this.#copies.get(tensor.data);
    if (kept) return kept;
    const { copy } = await this.#upload.run({ matrix: tensor });
    this.#copies.set(tensor.data, copy as Tensor);
    return copy as Tensor;
  }
}

function deviceMissing(error: unknown): EngineError {
  const reason = messageOf(error).trim();
  const adapter = reason.slice(Math.max(0, reason.indexOf('Failed to get a WebGPU adapter')));
  return new EngineError(
    'device_missing',
    `The device webgpu cannot be used: onnxruntime-node looked for a graphics adapter with Metal (macOS), Direct3D 12 (Windows) or Vulkan (Linux) and reports: ${adapter}. Install the driver of the graphics card, or choose --device cpu.`,
    { cause: error },
  );
}
