import { type FileHandle, open } from 'node:fs/promises';
import type { TensorShape } from './architecture.ts';
import { decodeHeader, headerLength } from './safetensors.ts';

/** Bytes read at a time. */
const pieceBytes = 1 << 18;

/** A safetensors file that is open for reading. */
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

  /** Throws an `EngineError` where a tensor is missing, cut off or of another shape. */
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

  /** The bytes of the tensors in the order of the shapes, in pieces. */
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
