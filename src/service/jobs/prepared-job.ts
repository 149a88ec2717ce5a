import type { Untrained } from '../../contract/index.ts';
import type { TrainingBatch } from '../../engines/engine.ts';

/** A batch, and what the service adds to the engine's figures in its `gradient_step` event. */
export interface CountedBatch {
  batch: TrainingBatch;
  counts: Record<string, number>;
}

/** What a job will train on. */
export interface PreparedTraining {
  /** Whether the checkpoint keeps the figures of the last step. Default true. */
  keepsMetrics?: boolean;
  /** How many gradient steps will come. */
  steps: number;
  /** Made one at a time, as the engine takes them. */
  batches: AsyncIterable<CountedBatch>;
}

/** A job, ready to run: what it will train on, or why it trains on nothing. */
export type PreparedJob = PreparedTraining | { untrained: Untrained };
