/** Pieces of this size are kept as they are. */
const wholeBytes = 16_384;
const largestBlockBytes = 65_536;

/**
 * Bytes that come in pieces. Small pieces are copied together: each alone takes far more memory than its bytes, and
 * whoever sends decides how small they are.
 */
export class GatheredBytes {
  readonly #blocks: Uint8Array[] = [];
  /** The rest of the last block, still to be written. */
  #room = new Uint8Array();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  add(piece: Uint8Array): void {
    this.#bytes += piece.byteLength;
    if (piece.byteLength >= wholeBytes) {
      this.#closeBlock();
      this.#blocks.push(piece);
      return;
    }
    if (piece.byteLength > this.#room.byteLength) {
      this.#closeBlock();
      const wanted = Math.min(largestBlockBytes, Math.max(this.#bytes, 1024));
      this.#room = new Uint8Array(Math.max(wanted, piece.byteLength));
      this.#blocks.push(this.#room);
    }
    this.#room.set(piece);
    this.#room = this.#room.subarray(piece.byteLength);
  }

  /** The bytes as UTF-8. */
  text(): string {
    this.#closeBlock();
    return Buffer.concat(this.#blocks).toString('utf8');
  }

  /** Takes what was not written off the last block. */
  #closeBlock(): void {
    const last = this.#room.byteLength === 0 ? undefined : this.#blocks.pop();
    if (last) this.#blocks.push(last.subarray(0, last.byteLength - this.#room.byteLength));
    this.#room = new Uint8Array();
  }
}
