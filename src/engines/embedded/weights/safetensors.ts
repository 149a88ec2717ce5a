import { type FileHandle, open } from 'node:fs/promises';
import { z } from 'zod';
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

/** Decodes such a file. Throws an `EngineError` when a tensor is missing or has another shape. */
export function decodeSafetensors(
  file: Uint8Array,
  shapes: readonly TensorShape[],
  path: string,
): { data: Float32Array; metadata: Record<string, string> } {
  const length = headerLength(file.subarray(0, 8), file.length, path);
  const { places, metadata } = decodeHeader(file.subarray(8, 8 + length), shapes, file.length, path);
  const data = new Float32Array(shapes.reduce((sum, { size }) => sum + size, 0));
  const target = new Uint8Array(data.buffer);
  for (const [index, { offset, size }] of shapes.entries()) {
    const from = places[index] as number;
    target.set(file.subarray(from, from + size * 4), offset * 4);
  }
  return { data, metadata };
}

/** The length of the JSON header, from the file's first eight bytes. */
export function headerLength(beginning: Uint8Array, fileLength: number, path: string): number {
  if (beginning.length < 8) throw badFile(path, 'is too short for a safetensors file');
  const length = Number(new DataView(beginning.buffer, beginning.byteOffset).getBigUint64(0, true));
  if (8 + length > fileLength) throw badFile(path, 'is cut off in its header');
  return length;
}

/** Decodes the JSON header. `places`: the byte offset in the file of each tensor of `shapes`. */
export function decodeHeader(
  bytes: Uint8Array,
  shapes: readonly TensorShape[],
  fileLength: number,
  path: string,
): { places: number[]; metadata: Record<string, string> } {
  const header = headerSchema.safeParse(readJson(bytes));
  if (!header.success) throw badFile(path, 'has no safetensors header');
  const { __metadata__: metadata = {}, ...tensors } = header.data;
  const start = 8 + bytes.length;
  const places = shapes.map(({ name, dimensions, size }) => {
    const entry = tensors[name];
    if (entry?.dtype !== 'F32' || entry.shape.join() !== dimensions.join())
      throw badFile(path, `has no float32 tensor ${name} of shape [${dimensions}]`);
    const [from, to] = entry.data_offsets;
    if (to - from !== size * 4 || start + to > fileLength)
      throw badFile(path, `is cut off in tensor ${name}`);
    return start + from;
  });
  return { places, metadata };
}

function badFile(path: string, problem: string): EngineError {
  return new EngineError('bad_checkpoint', `${path} ${problem}`);
}

const headerSchema = z.object({ __metadata__: z.record(z.string(), z.string()).optional() }).catchall(
  z.object({
    dtype: z.string(),
    shape: z.array(z.number()),
    data_offsets: z.tuple([z.number(), z.number()]),
  }),
);

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** Bytes of one read. */
const pieceBytes = 1 << 18;

/** A safetensors file opened for reading. */
export class SafetensorsFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #shapes: readonly TensorShape[];
  readonly #places: readonly number[];

  private constructor(
    path: string,
    handle: FileHandle,
    shapes: readonly TensorShape[],
    places: readonly number[],
  ) {
    this.#path = path;
    this.#handle = handle;
    this.#shapes = shapes;
    this.#places = places;
  }

  /** Throws an `EngineError` when a tensor is missing, cut off or has another shape. */
  static async open(path: string, shapes: readonly TensorShape[]): Promise<SafetensorsFile> {
    const handle = await open(path, 'r');
    try {
      const { size } = await handle.stat();
      const length = headerLength(await readAt(handle, 0, Math.min(8, size)), size, path);
      const { places } = decodeHeader(await readAt(handle, 8, length), shapes, size, path);
      return new SafetensorsFile(path, handle, shapes, places);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Reads the bytes of the tensors, in the order of the shapes, in pieces. */
  async *tensors(): AsyncGenerator<Uint8Array> {
    for (const [index, { size }] of this.#shapes.entries()) {
      const start = this.#places[index] as number;
      const end = start + size * 4;
      for (let at = start; at < end; at += pieceBytes) {
        const length = Math.min(pieceBytes, end - at);
        const piece = await readAt(this.#handle, at, length);
        if (piece.length < length) throw new Error(`${this.#path} became shorter while it was read`);
        yield piece;
      }
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await handle.read(new Uint8Array(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}
