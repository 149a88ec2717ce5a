import { chmod, copyFile, type FileHandle, open, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isFree, privateFile, writeNewFolder } from '../../../util/durable-files.ts';
import { EngineError } from '../../engine.ts';
import { formatBytes } from '../weights/safetensors.ts';
import { type Adapter, adapterTensors, addAdapter } from './adapter.ts';
import { readConfig } from './config.ts';
import { fromFloat32, toFloat32 } from './number-formats.ts';
import { selectTensors } from './read-checkpoint.ts';
import { type CheckpointTensor, TensorFiles } from './tensor-files.ts';

/** Numbers that are merged at once: a few milliseconds with a rank of 16. */
const pieceNumbers = 1 << 17;

/** Files of a folder in Hugging Face form that belong to any weights: configuration, tokenizer, template, licence. */
const isShared = (name: string) => /\.(json|jinja|txt|model)$|^(LICENSE|NOTICE)/.test(name);

/**
 * Writes a checkpoint with an adapter merged into its weights, as a folder that transformers loads: the same files, with
 * W + B A * alpha / rank in place of each target's W, rounded to its number format as PEFT's `merge_and_unload` does.
 * The folder appears completely or not at all.
 *
 * @param base Folder of the checkpoint that the adapter was trained on.
 * @param folder Must not exist yet, or be empty.
 * @throws EngineError (`bad_option`) when it is not, or when the base cannot be read.
 */
export async function writeMerged(
  base: string,
  adapter: Adapter,
  folder: string,
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (done: number, total: number) => void } = {},
): Promise<void> {
  const config = await readConfig(base);
  await using files = await TensorFiles.open(base);
  const targets = new Set(
    adapterTensors(config.architecture, adapter).map(({ name }) =>
      name.replace(/lora_[AB]\.weight$/, 'weight'),
    ),
  );
  const tensors = (await selectTensors(files, config)).filter(({ name }) => targets.has(name));
  if (!(await isFree(folder)))
    throw new EngineError('bad_option', `${folder} exists already: name a new or an empty folder`);
  let written = 0;
  await writeNewFolder(folder, async (unfinished) => {
    for (const name of await readdir(base))
      if (isShared(name)) await copyDurably(join(base, name), join(unfinished, name));
    // Header and layout stay, so only the data of the targets is written anew.
    for (const { path } of files.files)
      await copyDurably(path, join(unfinished, basename(path)), async (copy) => {
        for (const tensor of tensors.filter(({ file }) => file.path === path)) {
          onProgress?.(written++, tensors.length);
          for await (const { bytes, position } of mergedPieces(tensor, adapter)) {
            signal?.throwIfAborted();
            // One write may be short, as near a full disk.
            for (let at = 0; at < bytes.length; )
              at += (await copy.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
          }
        }
      });
  });
}

/** The bytes of a merged matrix, a few rows at a time, with their positions in the file. */
async function* mergedPieces(
  tensor: CheckpointTensor,
  adapter: Adapter,
): AsyncGenerator<{ bytes: Uint8Array; position: number }> {
  const { name, format, dimensions, start, file } = tensor;
  const [, inputs = 1] = dimensions;
  const rows = Math.max(1, Math.floor(pieceNumbers / inputs));
  let firstRow = 0;
  for await (const piece of file.pieces(tensor, rows * inputs * formatBytes[format])) {
    const numbers = new Float32Array(piece.length / formatBytes[format]);
    toFloat32(format, piece, numbers);
    addAdapter(adapter, name.replace(/\.weight$/, ''), numbers, firstRow);
    yield {
      bytes: fromFloat32(format, numbers),
      position: start + firstRow * inputs * formatBytes[format],
    };
    firstRow += numbers.length / inputs;
  }
}

async function copyDurably(
  from: string,
  to: string,
  change?: (copy: FileHandle) => Promise<void>,
): Promise<void> {
  await copyFile(from, to);
  // The source may be read-only.
  await chmod(to, privateFile);
  await using copy = await open(to, 'r+');
  await change?.(copy);
  await copy.sync();
}
