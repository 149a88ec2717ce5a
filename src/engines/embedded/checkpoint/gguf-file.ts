import type { FileHandle } from 'node:fs/promises';
import { hasCode, messageOf } from '../../../util/error.ts';
import { largestOf } from '../../../util/extremes.ts';
import { openRegularFile } from '../../../util/regular-file.ts';
import { elementsOf } from '../weights/architecture.ts';
import { fillFrom, type StoredTensor, type TensorFile, wholeRows } from '../weights/safetensors.ts';
import { badCheckpoint } from './bad-checkpoint.ts';
import { families } from './families/families.ts';
import type { Family } from './families/family.ts';
import { keyValueHeadsField } from './families/layer-settings.ts';
import { llama } from './families/llama.ts';
import { blockOf, readFormats, unpack } from './gguf/formats.ts';
import { type GgufHeader, readHeader, ropeFactors } from './gguf/header.ts';
import { addedInFile, huggingFaceName, interleavedHeads, reorderedRows, shapeInModel } from './gguf-names.ts';

/** A GGUF file opened for reading, whose tensors have their names in Hugging Face form. Must be disposed of. */
export class GgufFile implements TensorFile {
  readonly path: string;
  readonly formats = readFormats;
  readonly header: GgufHeader;
  /** Undefined if martingale does not run it. */
  readonly family: Family | undefined;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #handle: FileHandle;
  /** The heads of tensors whose rows lie in another order, by where they start. */
  readonly #interleaved = new Map<number, number>();
  /** What is added to the numbers of tensors, by the byte at which each starts. */
  readonly #added = new Map<number, number>();

  private constructor(path: string, handle: FileHandle, header: GgufHeader) {
    this.path = path;
    this.#handle = handle;
    this.header = header;
    const tensors = new Map<string, StoredTensor>();
    const name = header.metadata.get('general.architecture');
    // A file of another family is refused when its metadata are read.
    this.family = families.find(({ gguf }) => gguf.name === name);
    const family = this.family ?? llama;
    const heads = header.metadata.get(`${name}.attention.head_count`);
    const given = header.metadata.get(`${name}.${keyValueHeadsField}`) ?? heads;
    const keyValueHeads = Array.isArray(given) ? largestOf(given.map(Number)) : Number(given);
    for (const [theirs, tensor] of header.tensors) {
      if (theirs === ropeFactors) continue;
      const ours = huggingFaceName(theirs, family);
      tensors.set(ours, { ...tensor, dimensions: shapeInModel(ours, tensor.dimensions) });
      this.#added.set(tensor.start, addedInFile(ours, family));
      const own = interleavedHeads(ours, {
        family,
        heads: Number(heads),
        keyValueHeads,
      });
      if (own !== null) this.#interleaved.set(tensor.start, own);
    }
    this.tensors = tensors;
  }

  /** @throws EngineError (`bad_checkpoint`) that names the file, the field or the tensor, and the value */
  static async open(path: string): Promise<GgufFile> {
    let handle: FileHandle;
    try {
      handle = await openRegularFile(path);
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR'))
        throw badCheckpoint(`${path} does not exist. Give the path of a GGUF file.`);
      throw badCheckpoint(`${path} cannot be read: ${messageOf(error)}`);
    }
    try {
      return new GgufFile(path, handle, await readHeader(path, handle));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async *values(tensor: StoredTensor, most = 1 << 16): AsyncGenerator<Float32Array> {
    const { format, dimensions, start } = tensor;
    const block = blockOf(format);
    const width = dimensions.at(-1) ?? 1;
    const heads = this.#interleaved.get(start);
    const added = this.#added.get(start) ?? 0;
    // A head whose rows lie in another order is read as a whole.
    const rowsOfHead = heads === undefined ? 1 : (dimensions[0] ?? 1) / heads;
    const step = heads === undefined ? wholeRows(dimensions, most) : rowsOfHead * width;
    const total = elementsOf(dimensions);
    const bytes = new Uint8Array((Math.min(step, total) / block.numbers) * block.bytes);
    const numbers = new Float32Array(Math.min(step, total));
    for (let done = 0; done < total; done += step) {
      const count = Math.min(step, total - done);
      const piece = bytes.subarray(0, (count / block.numbers) * block.bytes);
      await fillFrom(this.#handle, this.path, piece, start + (done / block.numbers) * block.bytes);
      const values = numbers.subarray(0, count);
      unpack(format, piece, values);
      if (added !== 0)
        for (let index = 0; index < count; index++) values[index] = (values[index] as number) - added;
      yield heads === undefined ? values : reorderedRows(values, { rowsOfHead, width, to: 'model' });
    }
  }

  /** The factors of the rotary frequencies; null if the file has none. */
  async ropeFactors(): Promise<number[] | null> {
    const tensor = this.header.tensors.get(ropeFactors);
    if (!tensor) return null;
    const factors: number[] = [];
    for await (const values of this.values(tensor)) factors.push(...values);
    return factors;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}
