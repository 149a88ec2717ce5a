import { type CallFacts, type ClientLimits, tooLarge } from './errors.ts';

/** Pieces of this size or larger are kept without copying. */
const minDirectBytes = 16_384;
const maxBlockBytes = 65_536;

/**
 * Collects bytes that arrive in pieces. Small pieces are copied into blocks, because each piece uses far more memory
 * than its bytes, and the sender decides how small they are.
 */
export class GatheredBytes {
  readonly #blocks: Uint8Array[] = [];
  /** Free space at the end of the last block. */
  #room = new Uint8Array();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  add(piece: Uint8Array): void {
    this.#bytes += piece.byteLength;
    if (piece.byteLength >= minDirectBytes) {
      this.#closeBlock();
      this.#blocks.push(piece);
      return;
    }
    if (piece.byteLength > this.#room.byteLength) {
      this.#closeBlock();
      const wanted = Math.min(maxBlockBytes, Math.max(this.#bytes, 1024));
      this.#room = new Uint8Array(Math.max(wanted, piece.byteLength));
      this.#blocks.push(this.#room);
    }
    this.#room.set(piece);
    this.#room = this.#room.subarray(piece.byteLength);
  }

  /** The bytes, decoded as UTF-8. */
  text(): string {
    this.#closeBlock();
    return Buffer.concat(this.#blocks).toString('utf8');
  }

  /** Trims the free space off the last block. */
  #closeBlock(): void {
    const last = this.#room.byteLength === 0 ? undefined : this.#blocks.pop();
    if (last) this.#blocks.push(last.subarray(0, last.byteLength - this.#room.byteLength));
    this.#room = new Uint8Array();
  }
}

export interface BodyText {
  /** Can be read once. Each piece read does not extend the deadline. */
  pieces: AsyncIterable<Uint8Array>;
  /** Length in bytes as announced by the service; null if it is not. */
  contentLength: number | null;
  facts: Omit<CallFacts, 'detail'>;
  limits: ClientLimits;
}

/** Reads the whole body. If it is too large, reading stops and the connection is dropped. */
export async function wholeText({ pieces, contentLength, facts, limits }: BodyText): Promise<string> {
  const gathered = new GatheredBytes();
  for await (const piece of pieces) {
    gathered.add(piece);
    if (Math.max(gathered.bytes, contentLength ?? 0) <= limits.answerBytes) continue;
    throw tooLarge(facts, 'answerBytes', limits);
  }
  return gathered.text();
}

/** Reads the beginning of a body, for an error message. The rest is not read, and the connection is dropped. */
export async function beginningText({ pieces, limits }: BodyText): Promise<string> {
  const gathered = new GatheredBytes();
  for await (const piece of pieces) {
    gathered.add(piece.subarray(0, limits.errorBytes - gathered.bytes));
    if (gathered.bytes >= limits.errorBytes) break;
  }
  return gathered.text();
}

/** The pieces of a streamed answer. @throws RequestError of code `response_too_large` above `limits.answerBytes` in total. */
export async function* withinAnswer({ pieces, facts, limits }: BodyText): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.byteLength;
    if (bytes > limits.answerBytes) throw tooLarge(facts, 'answerBytes', limits);
    yield piece;
  }
}
