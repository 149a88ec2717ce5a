import type { ExportedWeights, Weights } from '../../engine.ts';
import { type Architecture, parameterCount, tensorShapes } from './architecture.ts';
import { openWeights, unreadableCheckpoint } from './checkpoint-files.ts';
import { initialTensors } from './initialize.ts';
import { encodeHeader } from './safetensors.ts';

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
  const { architecture } = model;
  if (folder !== null) await (await openCheckpoint(folder, architecture)).close();
  const header = encodeHeader(tensorShapes(architecture), metadataOf(model));
  return {
    extension: '.safetensors',
    bytes: header.length + parameterCount(architecture) * 4,
    chunks: chunksOf(header, folder === null ? initialBytes(model) : checkpointBytes(folder, architecture)),
  };
}

function metadataOf({ id, architecture }: Model): Record<string, string> {
  const { vocabularySize, width, layers, heads, contextLength, previousTokens, expansion } = architecture;
  const numbers = {
    vocabulary_size: vocabularySize,
    width,
    layers,
    heads,
    context_length: contextLength,
    previous_tokens: previousTokens,
    expansion,
  };
  const texts = Object.entries(numbers).map(([name, value]) => [name, String(value)] as const);
  // Loaders of the format's Python library require `format`.
  return { format: 'pt', base_model: id, ...Object.fromEntries(texts) };
}

async function* chunksOf(header: Uint8Array, data: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield header;
  yield* data;
}

async function* initialBytes({ architecture, seed }: Model): AsyncGenerator<Uint8Array> {
  for (const { buffer } of initialTensors(architecture, seed)) yield new Uint8Array(buffer);
}

async function* checkpointBytes(folder: string, architecture: Architecture): AsyncGenerator<Uint8Array> {
  const file = await openCheckpoint(folder, architecture);
  try {
    yield* file.tensors();
  } finally {
    await file.close();
  }
}

function openCheckpoint(folder: string, architecture: Architecture) {
  return openWeights(folder, architecture).catch((error: unknown) => {
    throw unreadableCheckpoint(folder, error);
  });
}
