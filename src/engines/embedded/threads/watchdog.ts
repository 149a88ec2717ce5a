/** Looks at a thread in so many equal parts of the time that it may stand still. */
const looks = 10;

/** What a worker finds of its watchdog. */
export interface WatchdogStart {
  shared: SharedArrayBuffer;
  everyMs: number;
}

/** Shows, from within a thread, that its event loop turns. Does not keep the thread alive. */
export function beat({ shared, everyMs }: WatchdogStart): void {
  const beats = new Int32Array(shared);
  setInterval(() => Atomics.add(beats, 0, 1), everyMs).unref();
}

/**
 * Watches from outside whether a thread's event loop turns. Time in which this thread did not run, such as a machine's
 * sleep, does not count, nor does time that the other one is `excused` from.
 */
export class Watchdog {
  readonly #shared = new SharedArrayBuffer(4);
  readonly #beats = new Int32Array(this.#shared);
  readonly #everyMs: number;
  #missed = 0;

  /** `timeoutMs`: how long it may stand still. */
  constructor(timeoutMs: number) {
    this.#everyMs = timeoutMs / looks;
  }

  get start(): WatchdogStart {
    return { shared: this.#shared, everyMs: this.#everyMs / 2 };
  }

  /** How long it has been seen to stand still. */
  get stillMs(): number {
    return this.#missed * this.#everyMs;
  }

  /** Calls `onStill` once it has stood still for too long, until the returned function is called. */
  watch({ excused, onStill }: { excused: () => boolean; onStill: () => void }): () => void {
    let seen = Atomics.load(this.#beats, 0);
    const timer = setInterval(() => {
      const now = Atomics.load(this.#beats, 0);
      this.#missed = now !== seen || excused() ? 0 : this.#missed + 1;
      seen = now;
      if (this.#missed < looks) return;
      clearInterval(timer);
      onStill();
    }, this.#everyMs).unref();
    return () => clearInterval(timer);
  }
}
