/** The bytes from `start` (included) to `end` (excluded). */
export interface Range {
  start: number;
  end: number;
}

/** Bytes with random access, in memory or in a file. */
export interface ByteSource {
  readonly bytes: number;
  /** The bytes of a range in one buffer. */
  read(range: Range): Promise<Buffer>;
  /**
   * The bytes of a range in chunks of at most `pieceBytes`. A chunk is valid only until the next one is
   * read.
   */
  pieces(range: Range): AsyncIterable<Buffer>;
}

export const pieceBytes = 131_072;

export class MemorySource implements ByteSource {
  readonly #content: Buffer;

  constructor(content: Buffer) {
    this.#content = content;
  }

  get bytes(): number {
    return this.#content.length;
  }

  async read({ start, end }: Range): Promise<Buffer> {
    return this.#content.subarray(start, end);
  }

  async *pieces({ start, end }: Range): AsyncGenerator<Buffer> {
    for (let at = start; at < end; at += pieceBytes)
      yield this.#content.subarray(at, Math.min(end, at + pieceBytes));
  }
}
