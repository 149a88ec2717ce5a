import { monitorEventLoopDelay } from 'node:perf_hooks';

const resolutionMs = 20;

/** How long the event loop was held, between one look and the next. */
export class LoopDelay implements Disposable {
  readonly #histogram = monitorEventLoopDelay({ resolution: resolutionMs });

  constructor() {
    this.#histogram.enable();
  }

  /** The longest time in milliseconds since the last look; 0 where nothing was seen. */
  take(): number {
    const longest = Math.max(0, this.#histogram.max / 1e6 - resolutionMs);
    const seen = this.#histogram.count > 0;
    this.#histogram.reset();
    return seen ? longest : 0;
  }

  [Symbol.dispose](): void {
    this.#histogram.disable();
  }
}
