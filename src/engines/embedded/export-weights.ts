import { encodeTar, tarBytes } from '../../util/tar.ts';
import type { ExportedWeights, Weights } from '../engine.ts';
import type { BaseModels, EmbeddedBaseModel } from './base-models.ts';
import {
  adapterConfigFile,
  adapterWeightsFile,
  encodeAdapterConfig,
  encodeAdapterHeader,
} from './checkpoint/adapter.ts';
import type { LoraSettings } from './runner/adapter-vector.ts';
import { vectorLength } from './weights/architecture.ts';
import { openWeights, unreadableCheckpoint } from './weights/checkpoint-files.ts';
import { encodeVectorHeader } from './weights/vector-file.ts';

/**
 * Exports weights. Of a tiny model: one safetensors file, float32 tensors named as Hugging Face names them, whose
 * metadata has the `format`, the `base_model` and the sizes of its architecture. Of a checkpoint: a tar archive with a
 * folder `adapter` that PEFT loads; if all weights were trained, one safetensors file with the names of Hugging Face.
 * Rejects with an `EngineError` when the weights cannot be read. If they are deleted during the export, reading the chunks
 * fails. An aborted signal rejects both, with its reason.
 */
export async function exportWeights(
  models: BaseModels,
  weights: Weights,
  { signal }: { signal?: AbortSignal } = {},
): Promise<ExportedWeights> {
  signal?.throwIfAborted();
  const model = models.find(weights.baseModel);
  const shapes = models.trainedShapes(model.id);
  const { folder } = weights;
  const open = (checkpoint: string) =>
    openWeights(checkpoint, shapes, models.originOf(model.id)).catch((error: unknown) => {
      throw unreadableCheckpoint(folder, error);
    });
  if (folder !== null) await (await open(folder))[Symbol.asyncDispose]();
  const adapted = model.trained !== 'all' ? model.trained : null;
  const { base_weights: baseWeights } = models.originOf(model.id);
  const header = adapted
    ? encodeAdapterHeader(shapes, baseWeights)
    : encodeVectorHeader(shapes, metadataOf(model));
  async function* content(): AsyncGenerator<Uint8Array> {
    yield header;
    if (folder === null) yield new Uint8Array((await models.loadVector(weights)).buffer);
    else {
      await using file = await open(folder);
      for await (const piece of file.pieces()) {
        signal?.throwIfAborted();
        yield piece;
      }
    }
  }
  const bytes = header.length + vectorLength(shapes) * 4;
  if (!adapted) return { extension: '.safetensors', bytes, chunks: content() };
  return adapterArchive(model, adapted, { bytes, content: content() });
}

/** PEFT's two files of an adapter, in one archive because an export is one file. */
function adapterArchive(
  { id, architecture }: EmbeddedBaseModel,
  lora: LoraSettings,
  tensors: { bytes: number; content: AsyncIterable<Uint8Array> },
): ExportedWeights {
  // The local path of the base model stays private.
  const config = encodeAdapterConfig(lora, { architecture, baseModel: id });
  const files = [
    { path: `adapter/${adapterConfigFile}`, bytes: config.length, content: [config] },
    { path: `adapter/${adapterWeightsFile}`, ...tensors },
  ];
  return { extension: '.tar', bytes: tarBytes(files), chunks: encodeTar(files) };
}

function metadataOf(model: EmbeddedBaseModel): Record<string, string> {
  const { id, architecture } = model;
  // Loaders of the format's Python library require `format`.
  const common = { format: 'pt', base_model: id };
  // For other models, the folder of the base has the sizes.
  if (!model.isSmall) return { ...common, base_weights: model.weightsHash };
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
  return { ...common, ...Object.fromEntries(sizes) };
}
