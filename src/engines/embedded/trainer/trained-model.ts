import type { TensorShape } from '../weights/architecture.ts';
import type { BatchLoss } from './batch-loss.ts';
import type { Decision, TrainingSequence } from './decisions.ts';
import type { KeptGradient } from './kept-gradient.ts';
import type { TrainedVector } from './trained-vector.ts';

/**
 * What a job trains: all parameters of a tiny model, or the LoRA adapter of a checkpoint. The values are one flat vector,
 * which the job has.
 */
export interface TrainedModel {
  readonly baseModel: string;
  /** Longest sequence, in tokens. */
  readonly contextLength: number;
  /** The tensors of the vector. */
  readonly shapes: readonly TensorShape[];
  /**
   * Groups the sequences of a step into micro-batches, and leaves out those without decisions. Throws an `EngineError`
   * when one does not fit into the memory for training.
   */
  prepare(sequences: readonly TrainingSequence[]): PreparedStep;
}

interface GradientOptions {
  signal: AbortSignal;
  /** What an earlier process has added to the vector's gradient. A tiny model computes all of it again. */
  kept?: KeptGradient | undefined;
}

/** The sequences of a step in micro-batches, in the order of their decisions. */
export interface PreparedStep {
  sequences: readonly TrainingSequence[];
  /** The log-probability of each decision. `vector`: null for the base model as nothing has trained it. */
  logprobs(vector: Float32Array | null, signal: AbortSignal): Promise<number[]>;
  /** Adds the gradient of the loss to the vector's gradient. */
  addGradient(vector: TrainedVector, loss: BatchLoss, options: GradientOptions): Promise<void>;
}

export function decisionsOf({ sequences }: PreparedStep): Decision[] {
  return sequences.flatMap(({ decisions }) => decisions);
}
