/** Number of checks within the timeout. */
const checks = 10;

/** The worker's part of its watchdog. */
export interface WatchdogStart {
  shared: SharedArrayBuffer;
  everyMs: number;
}

/** Called in the thread: counts up while its event loop runs. Does not keep the thread alive. */
export function beat({ shared, everyMs }: WatchdogStart): void {
  const beats = new Int32Array(shared);
  setInterval(() => Atomics.add(beats, 0, 1), everyMs).unref();
}

/**
 * Watches from another thread whether a thread's event loop runs. Time in which the watching thread did not run, such
 * as the sleep of the machine, does not count, nor does time in which the watched thread is `excused`.
 */
export class Watchdog {
  readonly start: WatchdogStart;
  readonly #everyMs: number;
  #missed = 0;

  /** `timeoutMs`: how long the thread may be silent. */
  constructor(timeoutMs: number) {
    this.#everyMs = timeoutMs / checks;
    this.start = { shared: new SharedArrayBuffer(4), everyMs: this.#everyMs / 2 };
  }

  /** How long the thread has been silent. */
  get silentMs(): number {
    return this.#missed * this.#everyMs;
  }

  /** Calls `onSilent` once the thread has been silent for too long. The returned function stops watching. */
  watch({ excused, onSilent }: { excused: () => boolean; onSilent: () => void }): () => void {
    const beats = new Int32Array(this.start.shared);
    let seen = Atomics.load(beats, 0);
    const timer = setInterval(() => {
      const now = Atomics.load(beats, 0);
      this.#missed = now !== seen || excused() ? 0 : this.#missed + 1;
      seen = now;
      if (this.#missed < checks) return;
      clearInterval(timer);
      onSilent();
    }, this.#everyMs).unref();
    return () => clearInterval(timer);
  }
}
