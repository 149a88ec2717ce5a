import type { InspectedCheckpoint, MemoryNeeds } from '../../engines/embedded/tools.ts';
import type { Rates, StepSize } from './probe.ts';

/** Bytes that a checkpoint needs, and what does not fit. */
export interface Needs extends MemoryNeeds {
  /** A process with a service and an engine, before it has a checkpoint. */
  processBytes: number;
  totalBytes: number;
  /** What a limit would refuse, in sentences. */
  refusals: string[];
}

/** Measured on Node 24: a recipe with its service and the engine's threads. */
const processBytes = 0.35e9;

/** Adds up what a checkpoint needs. `refusal`: why it cannot be trained; `usable`: bytes that this process may use. */
export function needsOf(
  { architecture: { contextLength }, id }: InspectedCheckpoint,
  { memory, refusal }: { memory: MemoryNeeds; refusal: string | null },
  { sequence, usable }: { sequence: number; usable: number },
): Needs {
  const refusals: string[] = [];
  if (sequence > contextLength)
    refusals.push(
      `A sequence of ${sequence} tokens exceeds the context of ${contextLength}. Shorten it, or set --context if the checkpoint has a longer one.`,
    );
  if (refusal !== null) refusals.push(refusal);
  const totalBytes =
    memory.weightBytes +
    memory.packedBytes +
    memory.keyValueBytes +
    memory.prefixCacheBytes +
    memory.trainedBytes +
    (memory.trainingBytes ?? 0) +
    processBytes;
  if (totalBytes > usable)
    refusals.push(
      `${id} needs ${gigabytes(totalBytes)} in all, and this process may use ${gigabytes(usable)}: sample fewer or shorter sequences at once (--batch, --context), or use a machine with more memory`,
    );
  return { ...memory, processBytes, totalBytes, refusals };
}

/** Seconds of a step of reinforcement learning. */
export interface StepTime {
  sampling: number;
  prompts: number;
  training: number | null;
  total: number | null;
}

/**
 * The time of a step by the rates of a probe: all rollouts sampled at once, what is not sampled computed once for each
 * group, and one pass of training.
 */
export function stepTimeOf({ rollouts, group, sampled, sequence }: StepSize, rates: Rates): StepTime {
  const sampling = (rollouts * sampled) / rates.allReplies;
  const prompts = (Math.ceil(rollouts / group) * (sequence - sampled)) / rates.prompt;
  const training = rates.training === null ? null : (rollouts * sequence) / rates.training;
  return { sampling, prompts, training, total: training === null ? null : sampling + prompts + training };
}

export const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
