import { threadId } from 'node:worker_threads';
import type { NativeGate } from './native-gate.ts';

const free = -1;

/**
 * Lets one thread at a time call into WebGPU. All sessions of a process share one WebGPU device, and calls from two
 * threads at once crash the process (onnxruntime-node 1.30.0).
 */
export class DeviceLock {
  /** The id of the thread that has the lock, or -1. */
  readonly shared: SharedArrayBuffer;
  readonly #holder: Int32Array;
  /** The last call of this thread. Waiting blocks the thread, so that it must not wait for itself. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(shared: SharedArrayBuffer = unlocked()) {
    this.shared = shared;
    this.#holder = new Int32Array(shared);
  }

  /**
   * Makes a call through the gate once the calls of this thread before it have ended and no other thread has the lock.
   * The wait counts as a call into the runtime, which has no time limit.
   */
  pass<Result>(gate: NativeGate, call: () => Promise<Result>): Promise<Result> {
    const locked = async () => {
      this.#acquire();
      try {
        return await call();
      } finally {
        this.release(threadId);
      }
    };
    const result = this.#last.then(() => gate.pass(locked));
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Releases the lock if that thread has it: at the end of its call, or when it has died during one. */
  release(thread: number): void {
    if (Atomics.compareExchange(this.#holder, 0, thread, free) === thread) Atomics.notify(this.#holder, 0);
  }

  #acquire(): void {
    for (;;) {
      const holder = Atomics.compareExchange(this.#holder, 0, free, threadId);
      if (holder === free) return;
      Atomics.wait(this.#holder, 0, holder);
    }
  }
}

function unlocked(): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(4);
  new Int32Array(shared)[0] = free;
  return shared;
}

/** The lock of this process's device. A worker thread makes its own from the `shared` memory of this one. */
export const deviceLock = new DeviceLock();
