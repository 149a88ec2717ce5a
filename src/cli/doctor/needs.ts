import { adapterShapes } from '../../engines/embedded/lora/adapter-vector.ts';
import { batchSizeOf, trainingBytes } from '../../engines/embedded/lora/training-memory.ts';
import type { InspectedCheckpoint } from '../../engines/embedded/open-checkpoint.ts';
import { EngineError } from '../../engines/engine.ts';
import type { Rates, StepSize } from './probe.ts';

/** Bytes that a checkpoint needs, and what does not fit. */
export interface Needs {
  weightBytes: number;
  /** Of as many sequences as are sampled at once, of the longest length. */
  keyValueBytes: number;
  /** Of the sequences that are trained together; null when not even one is allowed. */
  trainingBytes: number | null;
  /** Sequences that are trained together. */
  trainedTogether: number;
  /** The adapter with its gradient and Adam's state. */
  adapterBytes: number;
  totalBytes: number;
  /** What a limit would refuse, in sentences. */
  refusals: string[];
}

const bytesPerFloat = 4;

/** `batch`: sequences that are sampled at once. `trainingLimit` and `usable`: bytes. */
export function needsOf(
  { architecture, parameters, lora, id }: InspectedCheckpoint,
  { sequence }: StepSize,
  { batch, trainingLimit, usable }: { batch: number; trainingLimit: number; usable: number },
): Needs {
  const { layers, keyValueHeads, headWidth, contextLength } = architecture;
  const weightBytes = parameters * bytesPerFloat;
  const keyValueBytes = 2 * layers * keyValueHeads * headWidth * contextLength * batch * bytesPerFloat;
  const adapterValues = adapterShapes(architecture, lora).reduce((sum, { size }) => sum + size, 0);
  const adapterBytes = 4 * adapterValues * bytesPerFloat;
  const refusals: string[] = [];
  if (sequence > contextLength)
    refusals.push(
      `a sequence of ${sequence} tokens exceeds the context of ${contextLength}: shorten it, or set --context if the checkpoint has a longer one`,
    );
  let trainedTogether = 0;
  try {
    trainedTogether = batchSizeOf(architecture, sequence, trainingLimit);
  } catch (error) {
    if (!EngineError.isInstance(error)) throw error;
    refusals.push(error.message);
  }
  const training =
    trainedTogether > 0 ? trainingBytes(architecture, { sequences: trainedTogether, time: sequence }) : null;
  const totalBytes = weightBytes + keyValueBytes + adapterBytes + (training ?? 0);
  if (totalBytes > usable)
    refusals.push(
      `${id} needs ${gigabytes(totalBytes)} in all, and this process may use ${gigabytes(usable)}: sample fewer or shorter sequences at once (--batch, --context), or use a machine with more memory`,
    );
  return {
    ...{ weightBytes, keyValueBytes, trainingBytes: training, trainedTogether, adapterBytes, totalBytes },
    refusals,
  };
}

/** Seconds of a step of reinforcement learning. */
export interface StepTime {
  sampling: number;
  prompts: number;
  training: number | null;
  total: number | null;
}

/**
 * The time of a step by the rates of a probe: eight replies at once, all that is not sampled computed once for each
 * rollout (a group of rollouts shares its prompt, so this is an upper bound), and one pass of training.
 */
export function stepTimeOf({ rollouts, sampled, sequence }: StepSize, rates: Rates): StepTime {
  const sampling = (rollouts * sampled) / rates.eightReplies;
  const prompts = (rollouts * (sequence - sampled)) / rates.prompt;
  const training = rates.training === null ? null : (rollouts * sequence) / rates.training;
  return { sampling, prompts, training, total: training === null ? null : sampling + prompts + training };
}

export const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
