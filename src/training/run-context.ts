import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { z } from 'zod';
import type { RunListener } from '../progress/index.ts';
import type { WholeRolloutSettings } from '../rollout/index.ts';
import type { RunDirectory } from './run-directory.ts';
import type { FailureTeller } from './run-events.ts';
import type { TrainSettings } from './train-options.ts';

/** Values that all parts of a run share. */
export interface RunContext<Schema extends z.ZodType, Outcome> {
  settings: TrainSettings<Schema, Outcome>;
  /** Rollout settings of all steps and validations, with one executor. */
  rollouts: WholeRolloutSettings;
  directory: RunDirectory;
  emit: RunListener;
  tellFailures: FailureTeller;
  loopDelay: LoopDelay;
  /** Prefix of the idempotency keys for logged trajectories. */
  runId: string;
  /** Aborts when the run is stopped or ends, which cancels rollouts in flight. */
  signal: AbortSignal;
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
    const longest = Math.max(0, this.#histogram.max / 1e6 - resolutionMs);
    const seen = this.#histogram.count > 0;
    this.#histogram.reset();
    return seen ? longest : 0;
  }

  [Symbol.dispose](): void {
    this.#histogram.disable();
  }
}

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
