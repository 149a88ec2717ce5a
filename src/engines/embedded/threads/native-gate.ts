import { setTimeout as pause } from 'node:timers/promises';

/** How often it is looked whether the runtime has been left. */
const lockEveryMs = 10;

/** Longest time that the end of the process waits for a run of the native runtime. */
const longestRunMs = 5000;

const shutAt = 0;
const insideAt = 1;

/**
 * Stands between a thread and the native runtime. Where a process ends, by `process.exit` or by an error that nobody
 * catches, its threads are torn out of whatever they do, and the native runtime answers that by aborting the process,
 * with a core dump in the place of the exit status. So the end of the process shuts the gates: it waits until each
 * thread has come out of the runtime, and none gets in any more.
 */
export class NativeGate {
  /** Two numbers that both threads see: whether the gate is shut, and how many calls are inside. */
  readonly shared: SharedArrayBuffer;
  readonly #state: Int32Array;

  constructor(shared: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.shared = shared;
    this.#state = new Int32Array(shared);
  }

  /** Goes through with a call of the runtime. Blocks the thread for ever once the gate is shut. */
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

  /** Whether the thread is in the runtime just now. */
  get occupied(): boolean {
    return Atomics.load(this.#state, insideAt) > 0;
  }

  /** Shuts it for ever; resolves once nobody is inside: then the thread can be terminated. */
  async lock(): Promise<void> {
    Atomics.store(this.#state, shutAt, 1);
    while (this.occupied) await pause(lockEveryMs);
  }

  /** Shuts it for ever, and blocks until nobody is inside. */
  shut(): void {
    Atomics.store(this.#state, shutAt, 1);
    const deadline = performance.now() + longestRunMs;
    for (;;) {
      const inside = Atomics.load(this.#state, insideAt);
      const left = deadline - performance.now();
      if (inside === 0 || left <= 0) return;
      Atomics.wait(this.#state, insideAt, inside, left);
    }
  }

  /** A thread that has come to this line is not in the runtime, whatever else it has begun. */
  #block(): void {
    Atomics.store(this.#state, insideAt, 0);
    Atomics.notify(this.#state, insideAt);
    Atomics.wait(this.#state, shutAt, 1);
  }
}

const open = new Set<NativeGate>();

function shutAll(): void {
  for (const gate of open) gate.shut();
}

/** Has the gate shut when the process ends, until the returned function is called. */
export function shutAtExit(gate: NativeGate): () => void {
  if (open.size === 0) process.on('exit', shutAll);
  open.add(gate);
  return () => {
    open.delete(gate);
    if (open.size === 0) process.off('exit', shutAll);
  };
}
