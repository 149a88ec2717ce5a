import { randomUUID } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { privateFile, syncFolder } from '../../util/durable-files.ts';

/**
 * Written data is synced every this many bytes. One sync at the end would take long, and anyone who syncs
 * another file meanwhile, such as the database, would wait for it.
 */
const syncEvery = 16 * 1024 ** 2;

/** Files are read in pieces of at most as many bytes. */
export const pieceBytes = 131_072;

/** A private file that is appended to, read, and finally renamed or removed. */
export class IncomingFile {
  readonly #file: FileHandle;
  readonly path: string;
  #bytes = 0;
  #unsynced = 0;
  #open = true;
  #kept = false;

  private constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.path = path;
  }

  static async create(folder: string): Promise<IncomingFile> {
    const path = join(folder, randomUUID());
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
    return new IncomingFile(await open(path, flags, privateFile), path);
  }

  get bytes(): number {
    return this.#bytes;
  }

  async append(content: Uint8Array): Promise<void> {
    for (let at = 0; at < content.length; ) {
      const { bytesWritten } = await this.#file.write(content, at, content.length - at, this.#bytes);
      at += bytesWritten;
      this.#bytes += bytesWritten;
    }
    this.#unsynced += content.length;
    if (this.#unsynced < syncEvery) return;
    this.#unsynced = 0;
    await this.#file.datasync();
  }

  /** The whole content. */
  async read(): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(this.#bytes);
    return buffer.subarray(0, await this.#fill(buffer, 0));
  }

  /** The whole content. Each piece is valid only until the next one is read. */
  async *pieces(): AsyncGenerator<Buffer> {
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytes, this.#bytes));
    for (let at = 0; at < this.#bytes; ) {
      const length = await this.#fill(buffer.subarray(0, Math.min(buffer.length, this.#bytes - at)), at);
      if (length === 0) return;
      yield buffer.subarray(0, length);
      at += length;
    }
  }

  /** Renames the file durably. Nothing, or a file of equal content, may exist at `path`. */
  async keepAs(path: string): Promise<void> {
    await this.#file.sync();
    await this.#close();
    await rename(this.path, path);
    this.#kept = true;
    await syncFolder(dirname(path));
  }

  /** Closes the file and removes it, unless it was kept. */
  async discard(): Promise<void> {
    await this.#close();
    if (!this.#kept) await rm(this.path, { force: true });
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#file.close();
  }

  async #fill(buffer: Buffer, from: number): Promise<number> {
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await this.#file.read(buffer, length, buffer.length - length, from + length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return length;
  }
}

/** The decompressed content of a gzip file. */
export async function* readCompressed(path: string): AsyncGenerator<Buffer> {
  const packed = createReadStream(path);
  const plain = createGunzip();
  const unpacked = pipeline(packed, plain);
  // Awaited below, but not if the reader stops early.
  unpacked.catch(() => {});
  try {
    yield* plain;
    await unpacked;
  } finally {
    packed.destroy();
    plain.destroy();
  }
}
