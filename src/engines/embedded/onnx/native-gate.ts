import { setTimeout as pause } from 'node:timers/promises';

/** How often `shut` checks whether the thread has left the runtime. */
const checkEveryMs = 10;

/** How long the exit of the process waits for a run of the native runtime. */
const maxRunMs = 5000;

const shutAt = 0;
const insideAt = 1;

/**
 * Guards a thread's calls into the native runtime. When a process exits, by `process.exit` or an uncaught error, its
 * threads are stopped wherever they are; a thread inside the native runtime then aborts the process, with a core dump
 * instead of the exit status. So the exit of the process shuts the gates: it waits until each thread has left the
 * runtime, and lets none enter again.
 */
export class NativeGate {
  /** Two numbers shared by both threads: whether the gate is shut, and how many calls are inside. */
  readonly shared: SharedArrayBuffer;
  readonly #state: Int32Array;

  constructor(shared: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.shared = shared;
    this.#state = new Int32Array(shared);
  }

  /** Makes a call into the runtime. Blocks the thread forever once the gate is shut. */
  async pass<Result>(call: () => Promise<Result>): Promise<Result> {
    Atomics.add(this.#state, insideAt, 1);
    if (Atomics.load(this.#state, shutAt) === 1) this.#block();
    try {
      return await call();
    } finally {
      Atomics.sub(this.#state, insideAt, 1);
      Atomics.notify(this.#state, insideAt);
    }
  }

  /** Whether the thread is inside the runtime. */
  get occupied(): boolean {
    return Atomics.load(this.#state, insideAt) > 0;
  }

  /** Shuts the gate forever; resolves once no call is inside. Then the thread can be terminated. */
  async shut(): Promise<void> {
    Atomics.store(this.#state, shutAt, 1);
    while (this.occupied) await pause(checkEveryMs);
  }

  /** Shuts the gate forever, and blocks until no call is inside or 5 s have passed. */
  shutSync(): void {
    Atomics.store(this.#state, shutAt, 1);
    const deadline = performance.now() + maxRunMs;
    for (;;) {
      const inside = Atomics.load(this.#state, insideAt);
      const left = deadline - performance.now();
      if (inside === 0 || left <= 0) return;
      Atomics.wait(this.#state, insideAt, inside, left);
    }
  }

  /** A thread that runs this code is in JavaScript, not in the runtime, so that its count becomes 0. */
  #block(): void {
    Atomics.store(this.#state, insideAt, 0);
    Atomics.notify(this.#state, insideAt);
    Atomics.wait(this.#state, shutAt, 1);
  }
}

const open = new Set<NativeGate>();

function shutAll(): void {
  for (const gate of open) gate.shutSync();
}

/** Shuts the gate when the process exits. The returned function undoes this. */
export function shutAtExit(gate: NativeGate): () => void {
  if (open.size === 0) process.on('exit', shutAll);
  open.add(gate);
  return () => {
    open.delete(gate);
    if (open.size === 0) process.off('exit', shutAll);
  };
}
