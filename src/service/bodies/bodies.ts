import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import { type ByteSource, MemorySource } from '../json/byte-source.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import { type BodyPiecesOptions, bodyPieces } from './body-pieces.ts';

/** The whole body of a request: in memory where it is small, else in a file that goes with the request. */
export interface ReceivedBody {
  bytes: number;
  source: ByteSource;
  /** All of it, where it is in memory. */
  memory: Buffer | null;
  /** Where it is not. */
  file: IncomingFile | null;
  /** SHA-256, in hexadecimal, of the request's method, path and body. */
  fingerprint: string;
}

/** What of a body its reader needs. */
export type BodyBytes = Pick<ReceivedBody, 'bytes' | 'source'>;

/** All bytes of a body whose length is bounded to what may be in memory. */
export const contentOf = ({ source, bytes }: BodyBytes): Promise<Buffer> =>
  source.read({ start: 0, end: bytes });

/** A body up to this long is kept in memory. */
export const memoryBytes = 1024 ** 2;

/** Pieces of a body are gathered to this many bytes before they are written to its file. */
const writeBytes = 262_144;

/** Receives the bodies of requests. */
export class Bodies {
  readonly #files: DataFiles;

  constructor(files: DataFiles) {
    this.#files = files;
  }

  /**
   * Receives a body for as long as `work` needs it. A body over the limit is 413, as soon as that is known; one that
   * breaks off is 400. Nothing is left of either. The fingerprint is of what it holds, however it was compressed.
   */
  async receive<Result>(
    context: Context,
    options: BodyPiecesOptions,
    work: (body: ReceivedBody) => Promise<Result>,
  ): Promise<Result> {
    const receiving = new Receiving(this.#files);
    let failure: { error: unknown } | null = null;
    try {
      const hash = createHash('sha256').update(`${context.req.method} ${context.req.path}\n`);
      for await (const chunk of bodyPieces(context, options)) {
        hash.update(chunk);
        if (failure) continue;
        try {
          await receiving.add(chunk);
        } catch (error) {
          // Such as a full disk. It is read on: an answer before its end is lost to a client that sends slowly.
          failure = { error };
        }
      }
      if (failure) throw failure.error;
      return await work({ ...(await receiving.end()), fingerprint: hash.digest('hex') });
    } finally {
      await receiving.discard();
    }
  }
}

/** One body on its way: its last pieces in memory, what came before them in a file once they are too many. */
class Receiving {
  readonly #files: DataFiles;
  #chunks: Uint8Array[] = [];
  #waiting = 0;
  #file: IncomingFile | null = null;

  constructor(files: DataFiles) {
    this.#files = files;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(chunk);
    this.#waiting += chunk.byteLength;
    if (this.#waiting > (this.#file ? writeBytes : memoryBytes)) await this.#write();
  }

  async end(): Promise<Omit<ReceivedBody, 'fingerprint'>> {
    if (this.#file === null) {
      const memory = Buffer.concat(this.#chunks);
      return { bytes: memory.length, source: new MemorySource(memory), memory, file: null };
    }
    await this.#write();
    return { bytes: this.#file.bytes, source: this.#file, memory: null, file: this.#file };
  }

  async discard(): Promise<void> {
    this.#chunks = [];
    await this.#file?.discard();
  }

  async #write(): Promise<void> {
    this.#file ??= await this.#files.createIncoming();
    const content = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#waiting = 0;
    await this.#file.append(content);
  }
}
