/** Bytes from `start` up to, but not with, `end`. */
export interface Range {
  start: number;
  end: number;
}

/** Bytes that can be read anywhere: in memory, or in a file. */
export interface ByteSource {
  readonly bytes: number;
  /** The bytes of a range in one piece. */
  read(range: Range): Promise<Buffer>;
  /** The bytes of a range in pieces of at most `pieceBytes`. A piece is good until the next is taken. */
  pieces(range: Range): AsyncIterable<Buffer>;
}

export const pieceBytes = 131_072;

/** Bytes in memory. */
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
