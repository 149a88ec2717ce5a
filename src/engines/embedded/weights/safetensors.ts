import { type FileHandle, open } from 'node:fs/promises';
import { isObject } from '../../../util/json.ts';
import { EngineError } from '../../engine.ts';
import type { TensorShape } from './architecture.ts';

/**
 * Encodes a flat float32 vector as a safetensors file: eight bytes of header length, a JSON header with the position of
 * each tensor, and the data (https://huggingface.co/docs/safetensors). `metadata`: texts by name.
 */
export function encodeSafetensors(
  shapes: readonly TensorShape[],
  data: Float32Array,
  metadata: Record<string, string> = {},
): Uint8Array {
  const header = encodeHeader(shapes, metadata);
  const file = new Uint8Array(header.length + data.byteLength);
  file.set(header);
  file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), header.length);
  return file;
}

/** Encodes the header of such a file. The data must follow in the order and at the offsets of the shapes. */
export function encodeHeader(shapes: readonly TensorShape[], metadata: Record<string, string>): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  for (const { name, dimensions, offset, size } of shapes)
    header[name] = { dtype: 'F32', shape: dimensions, data_offsets: [offset * 4, (offset + size) * 4] };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(bytes.length - 8), true);
  bytes.set(text, 8);
  return bytes;
}

/** Bytes of one piece of `tensors`. */
const pieceBytes = 1 << 18;

/** A safetensors file opened for reading. Must be disposed of, such as by `await using`. */
export class SafetensorsFile {
  /** Texts by name. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #shapes: readonly TensorShape[];
  /** The byte offset in the file of each tensor of `#shapes`. */
  readonly #offsets: readonly number[];

  private constructor(
    path: string,
    handle: FileHandle,
    shapes: readonly TensorShape[],
    { offsets, metadata }: { offsets: readonly number[]; metadata: Record<string, string> },
  ) {
    this.#path = path;
    this.#handle = handle;
    this.#shapes = shapes;
    this.#offsets = offsets;
    this.metadata = metadata;
  }

  /** Throws an `EngineError` when a tensor is missing, cut off or has another shape. */
  static async open(path: string, shapes: readonly TensorShape[]): Promise<SafetensorsFile> {
    const handle = await open(path, 'r');
    try {
      return new SafetensorsFile(path, handle, shapes, await readHeader(path, handle, shapes));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Reads all tensors into one vector, at the offsets of their shapes. */
  async read(): Promise<Float32Array> {
    const data = new Float32Array(this.#shapes.reduce((sum, { size }) => sum + size, 0));
    for (const [index, { offset, size }] of this.#shapes.entries()) {
      const bytes = new Uint8Array(data.buffer, offset * 4, size * 4);
      await this.#fill(bytes, this.#offsets[index] as number);
    }
    return data;
  }

  /** Reads the bytes of the tensors, in the order of the shapes, in pieces. */
  async *tensors(): AsyncGenerator<Uint8Array> {
    for (const [index, { size }] of this.#shapes.entries()) {
      const start = this.#offsets[index] as number;
      const end = start + size * 4;
      for (let position = start; position < end; position += pieceBytes) {
        const piece = new Uint8Array(Math.min(pieceBytes, end - position));
        await this.#fill(piece, position);
        yield piece;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }

  async #fill(bytes: Uint8Array, position: number): Promise<void> {
    if ((await readInto(this.#handle, bytes, position)) < bytes.length)
      throw new Error(`${this.#path} became shorter while it was read`);
  }
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

async function readHeader(
  path: string,
  handle: FileHandle,
  shapes: readonly TensorShape[],
): Promise<{ offsets: number[]; metadata: Record<string, string> }> {
  const bad = (problem: string) => new EngineError('bad_checkpoint', `${path} ${problem}`);
  const { size: fileSize } = await handle.stat();
  const prefix = new Uint8Array(8);
  if ((await readInto(handle, prefix, 0)) < 8) throw bad('is too short for a safetensors file');
  const length = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  if (8 + length > fileSize) throw bad('is cut off in its header');
  const bytes = new Uint8Array(length);
  await readInto(handle, bytes, 8);
  const header = parseHeader(bytes);
  if (!header) throw bad('has no safetensors header');
  const { metadata, tensors } = header;
  const start = 8 + length;
  const offsets = shapes.map(({ name, dimensions, size }) => {
    const entry = tensors[name];
    if (entry?.dtype !== 'F32' || entry.shape.join() !== dimensions.join())
      throw bad(`has no float32 tensor ${name} of shape [${dimensions}]`);
    const [from, to] = entry.data_offsets;
    if (to - from !== size * 4 || start + to > fileSize) throw bad(`is cut off in tensor ${name}`);
    return start + from;
  });
  return { offsets, metadata };
}

interface TensorEntry {
  dtype: string;
  shape: number[];
  /** First byte and the byte after the last, in the data. */
  data_offsets: [number, number];
}

/** Checked by hand: the engine's threads start without zod. */
function parseHeader(
  bytes: Uint8Array,
): { metadata: Record<string, string>; tensors: Record<string, TensorEntry> } | undefined {
  const header = readJson(bytes);
  if (!isObject(header)) return undefined;
  const { __metadata__: metadata = {}, ...tensors } = header;
  return isRecordOf(metadata, isText) && isRecordOf(tensors, isTensorEntry)
    ? { metadata, tensors }
    : undefined;
}

const isRecordOf = <Value>(
  value: unknown,
  isValue: (entry: unknown) => entry is Value,
): value is Record<string, Value> => isObject(value) && Object.values(value).every(isValue);

const isText = (value: unknown): value is string => typeof value === 'string';

function isTensorEntry(value: unknown): value is TensorEntry {
  if (!isObject(value)) return false;
  const { dtype, shape, data_offsets: offsets } = value;
  return isText(dtype) && isNumbers(shape) && isNumbers(offsets) && offsets.length === 2;
}

const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((number) => typeof number === 'number');

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
