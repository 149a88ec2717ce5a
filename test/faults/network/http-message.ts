const headEnd = Buffer.from('\r\n\r\n');
const lineEnd = Buffer.from('\r\n');

/** Collects the bytes of one HTTP/1.1 message and finds its end. */
export class HttpMessage {
  #bytes = Buffer.alloc(0);
  #bodyStart = -1;
  #length: number | 'chunked' | 'until closed' = 0;
  /** Position of the next chunk's size, in a chunked body. */
  #next = 0;
  #isWhole = false;

  /** Adds bytes; returns those after the end of the message. */
  push(chunk: Buffer): Buffer {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    if (this.#bodyStart < 0) this.#readHead();
    if (this.#bodyStart < 0) return Buffer.alloc(0);
    const end = this.#end();
    if (end === null) return Buffer.alloc(0);
    this.#isWhole = true;
    const rest = this.#bytes.subarray(end);
    this.#bytes = this.#bytes.subarray(0, end);
    return rest;
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Start of the body; the number of bytes if the head is incomplete. */
  get bodyStart(): number {
    return this.#bodyStart < 0 ? this.#bytes.length : this.#bodyStart;
  }

  get startLine(): string {
    return this.#bytes.toString('latin1', 0, Math.max(0, this.#bytes.indexOf(lineEnd)));
  }

  header(name: string): string | undefined {
    const head = this.#bytes.toString('latin1', 0, this.bodyStart);
    return new RegExp(`^${name}: *(.*)\\r$`, 'im').exec(head)?.[1];
  }

  #readHead(): void {
    const end = this.#bytes.indexOf(headEnd);
    if (end < 0) return;
    this.#bodyStart = end + headEnd.length;
    this.#next = this.#bodyStart;
    const isReply = this.startLine.startsWith('HTTP/');
    const length = this.header('content-length');
    if (this.header('transfer-encoding')?.includes('chunked')) this.#length = 'chunked';
    else if (length !== undefined) this.#length = Number(length);
    else this.#length = isReply ? 'until closed' : 0;
  }

  #end(): number | null {
    if (this.#length === 'until closed') return null;
    if (this.#length === 'chunked') return this.#chunkedEnd();
    const end = this.#bodyStart + this.#length;
    return this.#bytes.length >= end ? end : null;
  }

  #chunkedEnd(): number | null {
    for (;;) {
      const sizeEnd = this.#bytes.indexOf(lineEnd, this.#next);
      if (sizeEnd < 0) return null;
      const size = Number.parseInt(this.#bytes.toString('latin1', this.#next, sizeEnd), 16);
      const after = sizeEnd + lineEnd.length + size + lineEnd.length;
      if (this.#bytes.length < after) return null;
      if (size === 0) return after;
      this.#next = after;
    }
  }
}
