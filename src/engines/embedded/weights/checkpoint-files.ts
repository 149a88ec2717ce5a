import { join } from 'node:path';
import { writeDurably, writeFolderAtomically } from '../../../util/durable-files.ts';
import { hasCode } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';
import { type TensorShape, vectorLength } from './architecture.ts';
import { encodeVectors, VectorFile } from './vector-file.ts';

/** The state of Adam: moving averages of the gradient and the squared gradient, and the number of updates. */
export interface OptimizerState {
  first: Float32Array;
  second: Float32Array;
  updates: number;
}

const weightsFile = 'model.safetensors';
const optimizerFile = 'optimizer.safetensors';

/** The shapes of the optimizer's file: both averages, each with the layout of the weights. */
function optimizerShapes(shapes: readonly TensorShape[]): TensorShape[] {
  const total = vectorLength(shapes);
  return ['first', 'second'].flatMap((moment, index) =>
    shapes.map((shape) => ({
      ...shape,
      name: `${moment}.${shape.name}`,
      offset: shape.offset + index * total,
    })),
  );
}

/** What trained tensors belong to, as texts by name: stored with them, and compared when they are read. */
export type TensorOrigin = Readonly<Record<string, string>>;

/** Rejects with an `EngineError`, of code `base_model_changed` for tensors of another origin. */
export function openWeights(
  folder: string,
  shapes: readonly TensorShape[],
  origin: TensorOrigin = {},
): Promise<VectorFile> {
  return VectorFile.open(join(folder, weightsFile), shapes, origin);
}

export async function readWeights(
  folder: string,
  shapes: readonly TensorShape[],
  origin: TensorOrigin = {},
): Promise<Float32Array> {
  await using file = await openWeights(folder, shapes, origin);
  return await file.read();
}

export function unreadableCheckpoint(folder: string | null, cause: unknown): EngineError {
  if (EngineError.isInstance(cause)) return cause;
  const code = hasCode(cause, 'ENOENT', 'ENOTDIR') ? 'checkpoint_missing' : 'engine_failed';
  return new EngineError(code, `The weights in ${folder} cannot be read: ${cause}`, { cause });
}

export async function readOptimizer(folder: string, shapes: readonly TensorShape[]): Promise<OptimizerState> {
  await using file = await VectorFile.open(join(folder, optimizerFile), optimizerShapes(shapes));
  const data = await file.read();
  const total = data.length / 2;
  return { first: data.slice(0, total), second: data.slice(total), updates: Number(file.metadata.updates) };
}

/**
 * Writes a checkpoint durably: the flat vector that is trained and Adam's state. `shapes`: the tensors of the vector. The
 * folder appears by one rename, so that it exists completely or not at all. The arrays must not change until it resolves.
 */
export async function writeCheckpoint(
  folder: string,
  shapes: readonly TensorShape[],
  weights: Float32Array,
  optimizer: OptimizerState,
  origin: TensorOrigin = {},
): Promise<void> {
  const { first, second, updates } = optimizer;
  await writeFolderAtomically(folder, async (unfinished) => {
    await Promise.all([
      writeDurably(join(unfinished, weightsFile), encodeVectors(shapes, [weights], origin)),
      writeDurably(
        join(unfinished, optimizerFile),
        encodeVectors(optimizerShapes(shapes), [first, second], { updates: String(updates) }),
      ),
    ]);
  });
}
