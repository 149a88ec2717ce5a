import { basename, join } from 'node:path';
import { isFree, writeDurably, writeNewFolder } from '../../../util/durable-files.ts';
import { EngineError } from '../../engine.ts';
import { fromFloat32, isFormat, type NumberFormat } from '../weights/number-formats.ts';
import { encodeHeader } from '../weights/safetensors.ts';
import { type Adapter, addAdapter } from './adapter.ts';
import { readConfig } from './config.ts';
import { selectTensors } from './read-checkpoint.ts';
import { openSource } from './source.ts';
import type { CheckpointSource, CheckpointTensor } from './tensor-files.ts';

const templateFile = 'chat_template.jinja';

/** Numbers that are merged at once: a few milliseconds with a rank of 16. */
const pieceNumbers = 1 << 17;

export interface WriteOptions {
  signal?: AbortSignal;
  onProgress?: (done: number, total: number) => void;
}

/**
 * Writes a checkpoint with an adapter merged into its weights, as a folder that transformers loads: with
 * W + B A * alpha / rank in place of each target's W, rounded to its number format as PEFT's `merge_and_unload` does.
 * Quantized numbers of a GGUF file become float16. The folder appears completely or not at all.
 *
 * @param base The checkpoint that the adapter was trained on: a folder, or a GGUF file.
 * @param folder Must not exist yet, or be empty.
 * @param options.chatTemplate In place of the checkpoint's own.
 * @throws EngineError (`bad_option`) when it is not, or when the base cannot be read.
 */
export async function writeMerged(
  base: string | CheckpointSource,
  adapter: Adapter,
  folder: string,
  { chatTemplate, signal, onProgress }: WriteOptions & { chatTemplate?: string | undefined } = {},
): Promise<void> {
  const source = await openSource(base);
  const config = readConfig(source);
  await using files = await source.openTensors();
  await selectTensors(files, config);
  const total = files.files.reduce((sum, { tensors }) => sum + tensors.size, 0);
  if (!(await isFree(folder)))
    throw new EngineError('bad_option', `${folder} exists already: name a new or an empty folder`);
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
          for await (const values of mergedValues(tensor, adapter)) {
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

/** The numbers of a tensor with an adapter added, some rows at a time. A piece is valid until the next is read. */
export async function* mergedValues(
  tensor: CheckpointTensor,
  adapter: Adapter,
): AsyncGenerator<Float32Array> {
  const name = tensor.name.replace(/\.weight$/, '');
  const isTarget = adapter.tensors.has(`${name}.lora_A.weight`);
  let firstRow = 0;
  for await (const values of tensor.file.values(tensor, pieceNumbers)) {
    if (isTarget) addAdapter(adapter, name, values, firstRow);
    yield values;
    firstRow += values.length / (tensor.dimensions.at(-1) ?? 1);
  }
}
