import { EngineError } from '../engine.ts';
import { checkpointPrefixBytes, defaultPrefixBytes } from './memory.ts';
import type { InspectedCheckpoint } from './open-checkpoint.ts';
import { trainedShapes } from './runner/adapter-vector.ts';
import { batchSizeOf, trainingBytesWithKept } from './runner/training-memory.ts';
import type { Device } from './runtime.ts';
import { keptPerPosition } from './sampler/padded/key-value-cache.ts';
import { vectorLength } from './weights/architecture.ts';

/** Bytes that an engine takes for a checkpoint. */
export interface MemoryNeeds {
  weightBytes: number;
  /** The copy that the sampler packs for the processor's kernels; 0 on WebGPU. */
  packedBytes: number;
  /** Keys and values of the sequences that are sampled at once. */
  keyValueBytes: number;
  /** Most memory for the keys and values of ended replies. A run fills it within a few steps. */
  prefixCacheBytes: number;
  /** What training takes for the sequences that are trained together; null when not even one is allowed. */
  trainingBytes: number | null;
  /** Sequences that are trained together. */
  trainedTogether: number;
  /** What is trained, an adapter or all weights, with its gradient and Adam's state. */
  trainedBytes: number;
}

interface Use {
  /** Tokens of the longest sequence. */
  sequence: number;
  /** Sequences that are sampled at once. */
  batch: number;
  device: Device;
  /** What training may take, in bytes. */
  trainingLimit: number;
}

const bytesPerFloat = 4;

/** The memory that a checkpoint takes, and why not even one sequence can be trained, or null. */
export function memoryNeeds(
  { architecture, parameters, trained }: Pick<InspectedCheckpoint, 'architecture' | 'parameters' | 'trained'>,
  { sequence, batch, device, trainingLimit }: Use,
): { memory: MemoryNeeds; refusal: string | null } {
  // An embedding that is not the head too is looked up, never multiplied.
  const lookedUp = architecture.tiedEmbeddings ? 0 : architecture.vocabularySize * architecture.width;
  // Weights that are all trained have a copy of their own for each checkpoint: the old one and the new one.
  const copies = trained === 'all' ? 2 : 1;
  let trainedTogether = 0;
  let refusal: string | null = null;
  try {
    trainedTogether = batchSizeOf(architecture, sequence, trainingLimit);
  } catch (error) {
    if (!EngineError.isInstance(error)) throw error;
    refusal = error.message;
  }
  const size = { sequences: trainedTogether, time: sequence };
  const memory = {
    weightBytes: parameters * bytesPerFloat,
    packedBytes: device === 'cpu' ? copies * (parameters - lookedUp) * bytesPerFloat : 0,
    keyValueBytes: keptPerPosition(architecture) * sequence * batch * bytesPerFloat,
    prefixCacheBytes: checkpointPrefixBytes(defaultPrefixBytes(true)),
    trainingBytes: trainedTogether > 0 ? trainingBytesWithKept(architecture, size, trainingLimit) : null,
    trainedTogether,
    trainedBytes: 4 * vectorLength(trainedShapes(architecture, trained)) * bytesPerFloat,
  };
  return { memory, refusal };
}
