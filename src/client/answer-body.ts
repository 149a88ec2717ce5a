import { type CallFacts, type ClientLimits, tooLarge } from './errors.ts';

/** Pieces of this size or larger are kept without copying. */
const minDirectBytes = 16_384;
/** Number of smaller pieces in a row that are joined into one. */
const maxSmallPieces = 128;

/**
 * Collects bytes that arrive in pieces. Small pieces are joined, because each one uses far more memory than its bytes,
 * and the sender decides how small they are.
 */
export class GatheredBytes {
  readonly #pieces: Uint8Array[] = [];
  #smallPieces = 0;
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  add(piece: Uint8Array): void {
    this.#bytes += piece.byteLength;
    this.#pieces.push(piece);
    this.#smallPieces = piece.byteLength < minDirectBytes ? this.#smallPieces + 1 : 0;
    if (this.#smallPieces < maxSmallPieces) return;
    this.#pieces.push(Buffer.concat(this.#pieces.splice(-maxSmallPieces)));
    this.#smallPieces = 0;
  }

  /** The bytes, decoded as UTF-8. */
  text(): string {
    return Buffer.concat(this.#pieces).toString('utf8');
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
