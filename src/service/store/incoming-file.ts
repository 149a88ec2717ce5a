import { randomUUID } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { privateFile, syncFolder } from '../../util/durable-files.ts';
import { type ByteSource, pieceBytes, type Range } from '../json/byte-source.ts';

/**
 * Written data is synced every this many bytes. One sync at the end would take long, and anyone who syncs
 * another file meanwhile, such as the database, would wait for it.
 */
const syncEvery = 16 * 1024 ** 2;

/** A private file that is appended to, read, and finally renamed or removed. */
export class IncomingFile implements ByteSource {
  readonly #file: FileHandle;
  readonly #path: string;
  #bytes = 0;
  #unsynced = 0;
  #open = true;
  #kept = false;

  private constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
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

  async read({ start, end }: Range): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(end, this.#bytes) - start));
    const length = await this.#fill(buffer, start);
    return buffer.subarray(0, length);
  }

  async *pieces({ start, end }: Range): AsyncGenerator<Buffer> {
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytes, Math.max(0, end - start)));
    for (let at = start; at < end; ) {
      const length = await this.#fill(buffer.subarray(0, Math.min(buffer.length, end - at)), at);
      if (length === 0) return;
      yield buffer.subarray(0, length);
      at += length;
    }
  }

  /** Renames the file durably. Nothing, or a file of equal content, may exist at `path`. */
  async keepAs(path: string): Promise<void> {
    await this.#file.sync();
    await this.#close();
    await rename(this.#path, path);
    this.#kept = true;
    await syncFolder(dirname(path));
  }

  /** Closes the file and removes it, unless it was kept. */
  async discard(): Promise<void> {
    await this.#close();
    if (!this.#kept) await rm(this.#path, { force: true });
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

/** Compresses `content` and appends it to a file as one gzip member. */
export async function compressInto(file: IncomingFile, content: AsyncIterable<Uint8Array>): Promise<void> {
  await pipeline(gathered(content), createGzip({ level: 1 }), async (packed: AsyncIterable<Buffer>) => {
    for await (const piece of packed) await file.append(piece);
  });
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

const gatheredBytes = 65_536;

/** Copies small chunks into larger ones that stay valid. */
async function* gathered(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of content) {
    pieces.push(Buffer.from(piece));
    length += piece.length;
    if (length < gatheredBytes) continue;
    yield Buffer.concat(pieces);
    pieces = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(pieces);
}
