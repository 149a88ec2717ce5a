import { basename, join } from 'node:path';
import { isFree, writeDurably, writeNewFolder } from '../../../util/durable-files.ts';
import { sumOf } from '../../../util/sums.ts';
import { EngineError } from '../../engine.ts';
import type { Architecture } from '../weights/architecture.ts';
import { fromFloat32, isFormat, type NumberFormat } from '../weights/number-formats.ts';
import { encodeHeader } from '../weights/safetensors.ts';
import { type Adapter, addAdapter } from './adapter.ts';
import { readConfig } from './config.ts';
import { selectTensors } from './read-checkpoint.ts';
import { openSource } from './source.ts';
import { type CheckpointSource, type CheckpointTensor, TensorFiles } from './tensor-files.ts';
import { checkpointTensors, embeddingTensor, headTensor } from './tensors.ts';

const templateFile = 'chat_template.jinja';

/** Numbers that are merged at once: a few milliseconds with a rank of 16. */
const pieceNumbers = 1 << 17;

export interface WriteOptions {
  signal?: AbortSignal;
  onProgress?: (done: number, total: number) => void;
}

/**
 * Writes a checkpoint after training as a folder that transformers loads: with W + B A * alpha / rank in place of each
 * target's W, as PEFT's `merge_and_unload` does, or with all weights replaced. Numbers are rounded to their formats in the
 * checkpoint. Quantized numbers of a GGUF file become float16. The folder appears completely or not at all.
 *
 * @param base The checkpoint that was trained: a folder, or a GGUF file.
 * @param folder Must not exist yet, or be empty.
 * @param options.chatTemplate In place of the checkpoint's own.
 * @throws EngineError (`bad_option`) when it is not, or when the base cannot be read.
 */
export async function writeMerged(
  base: string | CheckpointSource,
  change: TrainedChange,
  folder: string,
  { chatTemplate, signal, onProgress }: WriteOptions & { chatTemplate?: string | undefined } = {},
): Promise<void> {
  const source = await openSource(base);
  const config = readConfig(source);
  await using files = await source.openTensors();
  await selectTensors(files, config, signal);
  const total = sumOf(files.files, ({ tensors }) => tensors.size);
  if (!(await isFree(folder)))
    throw new EngineError('bad_option', `${folder} exists already. Name a new or an empty folder.`);
  let written = 0;
  await writeNewFolder(folder, async (unfinished) => {
    for (const name of await source.sharedFiles()) {
      if (name === templateFile && chatTemplate !== undefined) continue;
      const bytes = source.bytes(name, Number.POSITIVE_INFINITY);
      if (bytes) await writeDurably(join(unfinished, name), [bytes]);
    }
    // It counts before the one of tokenizer_config.json.
    if (chatTemplate !== undefined)
      await writeDurably(join(unfinished, templateFile), [Buffer.from(chatTemplate)]);
    for (const file of files.files) {
      const own = Array.from(file.tensors, ([name, tensor]) => ({ ...tensor, name, file }));
      async function* content() {
        yield encodeHeader(
          own.map(({ name, dimensions, format }) => ({ name, dimensions, format: writtenFormat(format) })),
          { format: 'pt' },
        );
        for (const tensor of own) {
          onProgress?.(written++, total);
          for await (const values of mergedValues(tensor, change)) {
            signal?.throwIfAborted();
            yield fromFloat32(writtenFormat(tensor.format), values);
          }
        }
      }
      const name = file.path.endsWith('.safetensors') ? basename(file.path) : 'model.safetensors';
      await writeDurably(join(unfinished, name), content());
    }
  });
}

const writtenFormat = (format: string): NumberFormat => (isFormat(format) ? format : 'F16');

/** All weights of a checkpoint as training has made them, by their names. */
interface TrainedWeights {
  weights: ReadonlyMap<string, CheckpointTensor>;
}

/** Opens a file with all weights of an architecture. @throws EngineError (`bad_checkpoint`) if it has others */
export async function openTrainedWeights(
  path: string,
  architecture: Architecture,
): Promise<TrainedWeights & AsyncDisposable> {
  const files = await TensorFiles.openFile(path);
  try {
    const tensors = files.select(checkpointTensors(architecture), { by: 'the checkpoint that was trained' });
    const weights = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    return { weights, [Symbol.asyncDispose]: () => files[Symbol.asyncDispose]() };
  } catch (error) {
    await files[Symbol.asyncDispose]();
    throw error;
  }
}

export type TrainedChange = Adapter | TrainedWeights;

/** The numbers of a tensor after training, some rows at a time. A piece is valid until the next is read. */
export async function* mergedValues(
  tensor: CheckpointTensor,
  change: TrainedChange,
): AsyncGenerator<Float32Array> {
  if ('weights' in change) {
    const { weights } = change;
    // Some files have a copy of a tied head, and old ones the rotary frequencies.
    const isCopy = tensor.name === headTensor && !weights.has(headTensor);
    const own = weights.get(isCopy ? embeddingTensor : tensor.name) ?? tensor;
    yield* own.file.values(own, pieceNumbers);
    return;
  }
  const name = tensor.name.replace(/\.weight$/, '');
  const isTarget = change.tensors.has(`${name}.lora_A.weight`);
  let firstRow = 0;
  for await (const values of tensor.file.values(tensor, pieceNumbers)) {
    if (isTarget) addAdapter(change, name, values, firstRow);
    yield values;
    firstRow += values.length / (tensor.dimensions.at(-1) ?? 1);
  }
}
