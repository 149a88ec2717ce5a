import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasCode } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';
import { type Architecture, type TensorShape, tensorShapes } from './architecture.ts';
import { decodeSafetensors, encodeSafetensors, SafetensorsFile } from './safetensors.ts';

/** The state of Adam: moving averages of the gradient and the squared gradient, and the number of updates. */
export interface OptimizerState {
  first: Float32Array;
  second: Float32Array;
  updates: number;
}

const weightsFile = 'model.safetensors';
const optimizerFile = 'optimizer.safetensors';

/** The shapes of the optimizer's file: both averages, each with the layout of the weights. */
function optimizerShapes(architecture: Architecture): TensorShape[] {
  const shapes = tensorShapes(architecture);
  const total = shapes.reduce((sum, { size }) => sum + size, 0);
  return ['first', 'second'].flatMap((moment, index) =>
    shapes.map((shape) => ({
      ...shape,
      name: `${moment}.${shape.name}`,
      offset: shape.offset + index * total,
    })),
  );
}

export async function readWeights(folder: string, architecture: Architecture): Promise<Float32Array> {
  const path = join(folder, weightsFile);
  return decodeSafetensors(await readFile(path), tensorShapes(architecture), path).data;
}

/** Opens the file of the weights, to read it in pieces. The caller must close it. */
export function openWeights(folder: string, architecture: Architecture): Promise<SafetensorsFile> {
  return SafetensorsFile.open(join(folder, weightsFile), tensorShapes(architecture));
}

/** The error for a checkpoint that cannot be read. */
export function unreadableCheckpoint(folder: string | null, cause: unknown): EngineError {
  if (EngineError.isInstance(cause)) return cause;
  const code = hasCode(cause, 'ENOENT', 'ENOTDIR') ? 'checkpoint_missing' : 'engine_failed';
  return new EngineError(code, `the weights in ${folder} cannot be read: ${cause}`, { cause });
}

export async function readOptimizer(folder: string, architecture: Architecture): Promise<OptimizerState> {
  const path = join(folder, optimizerFile);
  const { data, metadata } = decodeSafetensors(await readFile(path), optimizerShapes(architecture), path);
  const total = data.length / 2;
  return { first: data.slice(0, total), second: data.slice(total), updates: Number(metadata.updates) };
}

/** Writes a checkpoint durably. The folder appears by one rename, so that it exists completely or not at all. */
export async function writeCheckpoint(
  folder: string,
  architecture: Architecture,
  weights: Float32Array,
  optimizer: OptimizerState,
): Promise<void> {
  const unfinished = `${folder}.unfinished`;
  const moments = new Float32Array(weights.length * 2);
  moments.set(optimizer.first);
  moments.set(optimizer.second, weights.length);
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  try {
    await Promise.all([
      writeDurably(join(unfinished, weightsFile), encodeSafetensors(tensorShapes(architecture), weights)),
      writeDurably(
        join(unfinished, optimizerFile),
        encodeSafetensors(optimizerShapes(architecture), moments, { updates: String(optimizer.updates) }),
      ),
    ]);
    await synchronize(unfinished);
    await rename(unfinished, folder);
    await synchronize(dirname(folder));
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
}

async function writeDurably(path: string, data: Uint8Array): Promise<void> {
  const file = await open(path, 'w', 0o600);
  try {
    await file.writeFile(data);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function synchronize(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
