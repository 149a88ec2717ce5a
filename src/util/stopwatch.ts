import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Measures wall-clock seconds: `lap` since the last lap, `total` since the start. */
export function startStopwatch(): { lap: () => number; total: () => number } {
  const start = performance.now();
  let last = start;
  return {
    lap: () => {
      const now = performance.now();
      const seconds = (now - last) / 1000;
      last = now;
      return seconds;
    },
    total: () => (performance.now() - start) / 1000,
  };
}

const resolutionMs = 20;

/** Measures how long the event loop was blocked between two calls of `take`. */
export class LoopDelay implements Disposable {
  readonly #histogram = monitorEventLoopDelay({ resolution: resolutionMs });

  constructor() {
    this.#histogram.enable();
  }

  /** The longest block in milliseconds since the last call; 0 if there was none. */
  take(): number {
    const { max, count } = this.#histogram;
    this.#histogram.reset();
    return count > 0 ? Math.max(0, max / 1e6 - resolutionMs) : 0;
  }

  [Symbol.dispose](): void {
    this.#histogram.disable();
  }
}
