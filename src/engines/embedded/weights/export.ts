import type { ExportedWeights, Weights } from '../../engine.ts';
import { type Architecture, parameterCount, tensorShapes } from './architecture.ts';
import { openWeights, unreadableCheckpoint } from './checkpoint-files.ts';
import { initialTensors } from './initialize.ts';
import { encodeVectorHeader } from './vector-file.ts';

interface Model {
  id: string;
  architecture: Architecture;
  /** Seed of the base model's initial weights. */
  seed: number;
}

/**
 * Exports weights as one safetensors file: float32 tensors by name, matrices as [inputs, outputs]. Its metadata has the
 * `format`, the `base_model` and the sizes of its architecture. Rejects with an `EngineError` when a checkpoint cannot
 * be read. If the checkpoint is deleted during the export, reading the chunks fails.
 */
export async function exportWeights(model: Model, { folder }: Weights): Promise<ExportedWeights> {
  const { architecture, seed } = model;
  const shapes = tensorShapes(architecture);
  const openCheckpoint = (checkpoint: string) =>
    openWeights(checkpoint, shapes).catch((error: unknown) => {
      throw unreadableCheckpoint(folder, error);
    });
  if (folder !== null) await (await openCheckpoint(folder))[Symbol.asyncDispose]();
  const header = encodeVectorHeader(shapes, metadataOf(model));
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield header;
    if (folder === null)
      for (const { buffer } of initialTensors(architecture, seed)) yield new Uint8Array(buffer);
    else {
      await using file = await openCheckpoint(folder);
      yield* file.pieces();
    }
  }
  return {
    extension: '.safetensors',
    bytes: header.length + parameterCount(architecture) * 4,
    chunks: chunks(),
  };
}

function metadataOf({ id, architecture }: Model): Record<string, string> {
  const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const { vocabularySize, width, layers, heads, contextLength, previousTokens, mlpWidth } = architecture;
  const sizes = Object.entries({
    vocabularySize,
    width,
    layers,
    heads,
    contextLength,
    previousTokens,
    expansion: mlpWidth / width,
  }).map(([name, value]) => [snakeCase(name), String(value)]);
  // Loaders of the format's Python library require `format`.
  return { format: 'pt', base_model: id, ...Object.fromEntries(sizes) };
}
