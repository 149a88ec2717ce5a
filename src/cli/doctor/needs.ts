import { checkpointPrefixBytes, defaultPrefixBytes } from '../../engines/embedded/memory.ts';
import type { InspectedCheckpoint } from '../../engines/embedded/open-checkpoint.ts';
import { trainedShapes } from '../../engines/embedded/runner/adapter-vector.ts';
import { batchSizeOf, trainingBytesWithKept } from '../../engines/embedded/runner/training-memory.ts';
import type { Device } from '../../engines/embedded/runtime.ts';
import { keptPerPosition } from '../../engines/embedded/sampler/padded/key-value-cache.ts';
import { vectorLength } from '../../engines/embedded/weights/architecture.ts';
import { EngineError } from '../../engines/engine.ts';
import type { Rates, StepSize } from './probe.ts';

/** Bytes that a checkpoint needs, and what does not fit. */
export interface Needs {
  weightBytes: number;
  /** Of the copy that the sampler packs for the processor's kernels; 0 on WebGPU. */
  packedBytes: number;
  /** Of as many sequences as are sampled at once, of the length of a rollout. */
  keyValueBytes: number;
  /** What the engine keeps of ended replies at most. A run fills it in some steps. */
  prefixCacheBytes: number;
  /** Of the sequences that are trained together, with what all layers keep; null when not even one is allowed. */
  trainingBytes: number | null;
  /** Sequences that are trained together. */
  trainedTogether: number;
  /** What is trained, an adapter or all weights, with its gradient and Adam's state. */
  trainedBytes: number;
  /** Of a process with a service and an engine, before it has a checkpoint. */
  processBytes: number;
  totalBytes: number;
  /** What a limit would refuse, in sentences. */
  refusals: string[];
}

const bytesPerFloat = 4;

/** Measured on Node 24: a recipe with its service and the engine's threads. */
const processBytes = 0.35e9;

/** What a checkpoint is to do, and the limits in bytes. */
interface Use {
  /** Sequences that are sampled at once. */
  batch: number;
  device: Device;
  trainingLimit: number;
  usable: number;
}

export function needsOf(
  { architecture, parameters, trained, id }: InspectedCheckpoint,
  { sequence }: StepSize,
  { batch, device, trainingLimit, usable }: Use,
): Needs {
  const { contextLength } = architecture;
  const weightBytes = parameters * bytesPerFloat;
  // An embedding that is not the head too is looked up, never multiplied.
  const lookedUp = architecture.tiedEmbeddings ? 0 : architecture.vocabularySize * architecture.width;
  // Weights that are all trained have a copy of their own for each checkpoint: the old one and the new one.
  const copies = trained === 'all' ? 2 : 1;
  const packedBytes = device === 'cpu' ? copies * (parameters - lookedUp) * bytesPerFloat : 0;
  const keyValueBytes = keptPerPosition(architecture) * sequence * batch * bytesPerFloat;
  const prefixCacheBytes = checkpointPrefixBytes(defaultPrefixBytes(true));
  const trainedValues = vectorLength(trainedShapes(architecture, trained));
  const trainedBytes = 4 * trainedValues * bytesPerFloat;
  const refusals: string[] = [];
  if (sequence > contextLength)
    refusals.push(
      `A sequence of ${sequence} tokens exceeds the context of ${contextLength}. Shorten it, or set --context if the checkpoint has a longer one.`,
    );
  let trainedTogether = 0;
  try {
    trainedTogether = batchSizeOf(architecture, sequence, { bytes: trainingLimit });
  } catch (error) {
    if (!EngineError.isInstance(error)) throw error;
    refusals.push(error.message);
  }
  const size = { sequences: trainedTogether, time: sequence };
  const training = trainedTogether > 0 ? trainingBytesWithKept(architecture, size, trainingLimit) : null;
  const totalBytes =
    weightBytes +
    packedBytes +
    keyValueBytes +
    prefixCacheBytes +
    trainedBytes +
    (training ?? 0) +
    processBytes;
  if (totalBytes > usable)
    refusals.push(
      `${id} needs ${gigabytes(totalBytes)} in all, and this process may use ${gigabytes(usable)}: sample fewer or shorter sequences at once (--batch, --context), or use a machine with more memory`,
    );
  return {
    weightBytes,
    packedBytes,
    keyValueBytes,
    prefixCacheBytes,
    trainingBytes: training,
    trainedTogether,
    trainedBytes,
    processBytes,
    totalBytes,
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
