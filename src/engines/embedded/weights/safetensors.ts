import type { FileHandle } from 'node:fs/promises';
import { isObject } from '../../../util/json.ts';
import { isLfsPointer, lfsProblem } from '../../../util/lfs-pointer.ts';
import { openRegularFile } from '../../../util/regular-file.ts';
import { EngineError } from '../../engine.ts';
import { elementsOf, type NamedShape } from './architecture.ts';
import { formatBytes, isFormat, type NumberFormat, toFloat32 } from './number-formats.ts';

/** A tensor in a safetensors file. */
export interface StoredTensor {
  /** As the file calls it: `F32`, `BF16`, `I64`. */
  format: string;
  dimensions: readonly number[];
  /** Position of the first byte in the file. */
  start: number;
  bytes: number;
}

/** A file of tensors that is open for reading. */
export interface TensorFile extends AsyncDisposable {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** The number formats that it can read, by name. */
  readonly formats: readonly string[];
  /** The numbers of a tensor as float32, in whole rows: about `most` at a time. A piece is valid until the next is read. */
  values(tensor: StoredTensor, most?: number): AsyncIterable<Float32Array>;
}

/**
 * Encodes the header of a safetensors file: eight bytes of length, and JSON with the position of each tensor
 * (https://huggingface.co/docs/safetensors). The data must follow, in the same order and without gaps.
 * @param metadata Texts by name.
 */
export function encodeHeader(
  tensors: Iterable<NamedShape & { format: NumberFormat }>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let end = 0;
  for (const { name, dimensions, format } of tensors) {
    const start = end;
    end += elementsOf(dimensions) * formatBytes[format];
    header[name] = { dtype: format, shape: dimensions, data_offsets: [start, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(bytes.length - 8), true);
  bytes.set(text, 8);
  return bytes;
}

/** A safetensors file opened for reading. Must be disposed of, such as by `await using`. */
export class SafetensorsFile implements TensorFile {
  readonly formats = Object.keys(formatBytes);
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #handle: FileHandle;

  private constructor(path: string, handle: FileHandle, { metadata, tensors }: Header) {
    this.path = path;
    this.metadata = metadata;
    this.tensors = tensors;
    this.#handle = handle;
  }

  /**
   * @throws EngineError (`bad_checkpoint`) when the header cannot be read, or the data of a tensor is cut off. Errors of
   * the file system, such as ENOENT, are thrown as they are.
   */
  static async open(path: string): Promise<SafetensorsFile> {
    const handle = await openRegularFile(path);
    try {
      return new SafetensorsFile(path, handle, await readHeader(path, handle));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  fill(bytes: Uint8Array, position: number): Promise<void> {
    return fillFrom(this.#handle, this.path, bytes, position);
  }

  /** Reads the bytes of a tensor, at most `pieceBytes` at a time. A piece is valid until the next is read. */
  async *pieces(
    { start, bytes }: StoredTensor,
    pieceBytes = 1 << 18,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const buffer = new Uint8Array(Math.min(pieceBytes, bytes));
    for (let position = 0; position < bytes; position += pieceBytes) {
      const piece = buffer.subarray(0, Math.min(pieceBytes, bytes - position));
      await this.fill(piece, start + position);
      yield piece;
    }
  }

  async *values(tensor: StoredTensor, most = 1 << 16): AsyncGenerator<Float32Array> {
    const { format, dimensions } = tensor;
    if (!isFormat(format)) throw new Error(`${this.path} has numbers of ${format}`);
    const values = new Float32Array(Math.min(wholeRows(dimensions, most), elementsOf(dimensions)));
    for await (const piece of this.pieces(tensor, Math.max(1, values.length * formatBytes[format]))) {
      const part = values.subarray(0, piece.length / formatBytes[format]);
      toFloat32(format, piece, part);
      yield part;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** About `most` values in whole rows, at least one row. */
export function wholeRows(dimensions: readonly number[], most: number): number {
  const row = dimensions.at(-1) ?? 1;
  return row * Math.max(1, Math.floor(most / row));
}

/** Fills `bytes` from a file, from a position on. */
export async function fillFrom(
  handle: FileHandle,
  path: string,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  if ((await readInto(handle, bytes, position)) < bytes.length)
    throw new Error(`${path} became shorter while it was read`);
}

/** Reads until the bytes are full or the file ends; returns the number of bytes read. */
async function readInto(handle: FileHandle, bytes: Uint8Array, position: number): Promise<number> {
  let filled = 0;
  while (filled < bytes.length) {
    const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}

interface Header {
  metadata: Record<string, string>;
  tensors: Map<string, StoredTensor>;
}

/** The maximum of the safetensors library. */
const maxHeaderBytes = 100_000_000;

async function readHeader(path: string, handle: FileHandle): Promise<Header> {
  const bad = (problem: string) => new EngineError('bad_checkpoint', `${path} ${problem}.`);
  const { size } = await handle.stat();
  const prefix = new Uint8Array(8);
  if ((await readInto(handle, prefix, 0)) < 8) throw bad('is too short for a safetensors file');
  if (isLfsPointer(prefix)) throw bad(lfsProblem);
  const length = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  const start = 8 + length;
  if (start > size) throw bad('is cut off in its header, or is not a safetensors file');
  if (length > maxHeaderBytes)
    throw bad(`has a header of ${length} bytes; the maximum of the format is ${maxHeaderBytes}`);
  const bytes = new Uint8Array(length);
  await readInto(handle, bytes, 8);
  const header = readJson(bytes);
  if (!isObject(header)) throw bad('has no safetensors header');
  const { __metadata__: metadata = {}, ...entries } = header;
  if (!isRecordOfTexts(metadata)) throw bad('has no safetensors header');
  const tensors = new Map<string, StoredTensor>();
  for (const [name, entry] of Object.entries(entries)) {
    if (!isTensorEntry(entry)) throw bad(`has no valid position of tensor ${name} in its header`);
    const { dtype: format, shape: dimensions, data_offsets: offsets } = entry;
    const [from, to] = offsets;
    if (start + to > size) throw bad(`is cut off in tensor ${name}`);
    tensors.set(name, { format, dimensions, start: start + from, bytes: to - from });
  }
  return { metadata, tensors };
}

interface TensorEntry {
  dtype: string;
  shape: number[];
  /** First byte and the byte after the last, in the data. */
  data_offsets: [number, number];
}

// Checked by hand: the engine's threads start without zod.

const isRecordOfTexts = (value: unknown): value is Record<string, string> =>
  isObject(value) && Object.values(value).every((text) => typeof text === 'string');

function isTensorEntry(value: unknown): value is TensorEntry {
  if (!isObject(value)) return false;
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== 'string' || !isCounts(shape) || !isCounts(offsets) || offsets.length !== 2)
    return false;
  const [from = 0, to = 0] = offsets;
  // Other formats than these are refused where the tensor is used.
  const width: number | undefined = isFormat(dtype) ? formatBytes[dtype] : undefined;
  return width === undefined ? to >= from : to - from === elementsOf(shape) * width;
}

const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((number) => Number.isSafeInteger(number) && number >= 0);

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
