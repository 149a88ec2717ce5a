import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { JsonFields, type ModelFiles } from '../../../language/index.ts';
import { hasCode, messageOf } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';
import { elementsOf, type NamedShape } from '../weights/architecture.ts';
import { SafetensorsFile, type StoredTensor, type TensorFile } from '../weights/safetensors.ts';
import { badCheckpoint } from './bad-checkpoint.ts';

const singleFile = 'model.safetensors';
const indexFile = 'model.safetensors.index.json';

/** Numbers that are read and converted at once: about a millisecond. */
const pieceNumbers = 1 << 18;

/** A tensor of a checkpoint, with the file that holds it. */
export interface CheckpointTensor extends StoredTensor {
  name: string;
  file: TensorFile;
}

/** The files of a checkpoint's tensors, opened for reading. Must be disposed of, such as by `await using`. */
export class TensorFiles {
  /** In the order of their names. */
  readonly files: readonly TensorFile[];

  constructor(files: readonly TensorFile[]) {
    this.files = files;
  }

  /**
   * Opens `model.safetensors`, or all files that `model.safetensors.index.json` names.
   *
   * @throws EngineError or LanguageError (`bad_checkpoint`) when a file is missing, unreadable or not what the index says.
   */
  static async open(folder: string): Promise<TensorFiles> {
    const single = await openIfExists(join(folder, singleFile));
    if (single) return new TensorFiles([single]);
    const index = JsonFields.find(folder, indexFile);
    if (!index) throw await noWeights(folder);
    return await TensorFiles.openShards(folder, index);
  }

  static async openFile(path: string): Promise<TensorFiles> {
    const file = await openIfExists(path);
    if (!file) throw badCheckpoint(`${path} does not exist. Fetch it.`);
    return new TensorFiles([file]);
  }

  private static async openShards(folder: string, index: JsonFields): Promise<TensorFiles> {
    const places = Object.entries(index.nested('weight_map')?.fields ?? {});
    if (places.length === 0)
      throw badCheckpoint(`${index.path} has no weight_map with the file of each tensor. Fetch it again.`);
    const files = new Map<unknown, SafetensorsFile>();
    try {
      for (const [tensor, name] of places.toSorted(([, a], [, b]) => (String(a) < String(b) ? -1 : 1))) {
        if (typeof name !== 'string' || basename(name) !== name || !name.endsWith('.safetensors'))
          throw index.wrong(`weight_map.${tensor}`, 'the name of a safetensors file', name);
        const file = files.get(name) ?? (await openIfExists(join(folder, name)));
        if (!file)
          throw badCheckpoint(`${join(folder, name)} does not exist, but ${indexFile} names it. Fetch it.`);
        files.set(name, file);
        if (!file.tensors.has(tensor))
          throw badCheckpoint(
            `${file.path} has no tensor ${tensor}, but ${indexFile} says it has. Fetch both again.`,
          );
      }
      return new TensorFiles([...files.values()]);
    } catch (error) {
      await closeAll(files.values());
      throw error;
    }
  }

  /**
   * The tensors with these names and shapes.
   *
   * @param by What says that these are the tensors, for messages.
   * @param ignores Whether a further tensor is no part of the model.
   * @throws EngineError that names the file and the tensor: missing, further, of another shape, of another format.
   */
  select(
    shapes: readonly NamedShape[],
    { by, ignores = () => false }: { by: string; ignores?: (name: string) => boolean },
  ): CheckpointTensor[] {
    const missing = new Map(shapes.map((shape) => [shape.name, shape.dimensions]));
    const selected = new Map<string, CheckpointTensor>();
    for (const file of this.files)
      for (const [name, tensor] of file.tensors) {
        if (ignores(name)) continue;
        const expected = missing.get(name);
        if (selected.has(name))
          throw badCheckpoint(
            `${file.path} has tensor ${name}, which another file has too. Fetch the files again.`,
          );
        if (!expected)
          throw badCheckpoint(
            `${file.path} has tensor ${name}, which the model by ${by} does not have. Take all files from the same checkpoint.`,
          );
        if (tensor.dimensions.join() !== expected.join())
          throw badCheckpoint(
            `${file.path}: tensor ${name} is [${tensor.dimensions}]. It must be [${expected}] by ${by}.`,
          );
        if (!file.formats.includes(tensor.format))
          throw new EngineError(
            'checkpoint_unsupported',
            `${file.path}: tensor ${name} is ${tensor.format}. martingale reads ${file.formats.join(', ')}. Choose such a checkpoint.`,
          );
        missing.delete(name);
        selected.set(name, { ...tensor, name, file });
      }
    for (const name of missing.keys())
      throw badCheckpoint(
        `${this.files.map(({ path }) => path).join(', ')} has no tensor ${name}, which the model by ${by} has. Take all files from the same checkpoint.`,
      );
    return shapes.flatMap(({ name }) => selected.get(name) ?? []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await closeAll(this.files);
  }
}

/** A checkpoint on this machine: a folder in Hugging Face form, or a GGUF file, which says the same. */
export interface CheckpointSource extends ModelFiles {
  /** The names of its files that belong to any weights: configuration, tokenizer, template, licence. */
  sharedFiles(): Promise<string[]>;
  openTensors(): Promise<TensorFiles>;
}

/**
 * Reads a tensor as float32, in memory that threads can share. Other work goes on in between. Rejects with the signal's
 * reason when aborted.
 */
export async function readTensor(tensor: CheckpointTensor, signal?: AbortSignal): Promise<Float32Array> {
  const target = new Float32Array(new SharedArrayBuffer(elementsOf(tensor.dimensions) * 4));
  let filled = 0;
  for await (const values of tensor.file.values(tensor, pieceNumbers)) {
    signal?.throwIfAborted();
    target.set(values, filled);
    filled += values.length;
  }
  return target;
}

async function openIfExists(path: string): Promise<SafetensorsFile | undefined> {
  try {
    return await SafetensorsFile.open(path);
  } catch (error) {
    if (EngineError.isInstance(error)) throw error;
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw badCheckpoint(`${path} cannot be read: ${messageOf(error)}`);
  }
}

async function noWeights(folder: string): Promise<EngineError> {
  const files = await readdir(folder).catch(() => []);
  const other = files.find((name) => /\.(bin|pth?|gguf|onnx|msgpack|h5)$/.test(name));
  const remedy = other
    ? `${other} is in another form: save it with transformers' save_pretrained, or choose the checkpoint in safetensors.`
    : 'Fetch the weights.';
  return badCheckpoint(`${folder} has neither ${singleFile} nor ${indexFile}. ${remedy}`);
}

async function closeAll(files: Iterable<TensorFile>): Promise<void> {
  await Promise.all(Array.from(files, (file) => file[Symbol.asyncDispose]()));
}
