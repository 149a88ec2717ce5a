import { type FileHandle, open } from 'node:fs/promises';
import { ScenarioFileError } from './errors.ts';

export interface FileLine {
  text: string;
  /** Counted from 1. */
  line: number;
  /** Byte that the line begins at. */
  byte: number;
}

const lineFeed = 0x0a;
const chunkBytes = 65_536;

/** The lines of a file that are not blank, read in pieces; the file is not kept open between them. */
export class FileLines {
  readonly #path: string;
  /** Where the unread begins: the line that `#pending` begins with. */
  #byte: number;
  #line: number;
  #pending: Buffer = Buffer.alloc(0);
  #bytes: number | null = null;

  constructor(path: string, { line, byte }: { line: number; byte: number } = { line: 1, byte: 0 }) {
    this.#path = path;
    this.#byte = byte;
    this.#line = line;
  }

  /** Size of the file; null until it has been read from. */
  get bytes(): number | null {
    return this.#bytes;
  }

  /** Null at the end. @throws ScenarioFileError where the file cannot be read, or is not the same any more. */
  async next(): Promise<FileLine | null> {
    for (;;) {
      const line = await this.#nextOfAny();
      if (line === null || line.text.trim() !== '') return line;
    }
  }

  async #nextOfAny(): Promise<FileLine | null> {
    let end = this.#pending.indexOf(lineFeed);
    while (end < 0) {
      const searched = this.#pending.length;
      if (!(await this.#readOn())) break;
      end = this.#pending.indexOf(lineFeed, searched);
    }
    if (end < 0 && this.#pending.length === 0) return null;
    const length = end < 0 ? this.#pending.length : end + 1;
    const line = {
      text: this.#decode(this.#pending.subarray(0, length)),
      line: this.#line,
      byte: this.#byte,
    };
    this.#pending = this.#pending.subarray(length);
    this.#byte += length;
    this.#line++;
    return line;
  }

  async #readOn(): Promise<boolean> {
    const buffer = Buffer.alloc(Math.max(chunkBytes, this.#pending.length));
    let bytesRead: number;
    try {
      await using handle = await open(this.#path);
      await this.#checkSize(handle);
      ({ bytesRead } = await handle.read(buffer, 0, buffer.length, this.#byte + this.#pending.length));
    } catch (error) {
      if (error instanceof ScenarioFileError) throw error;
      const what = error instanceof Error ? error.message : String(error);
      throw new ScenarioFileError(this.#path, null, `cannot be read: ${what}`, { cause: error });
    }
    this.#pending = Buffer.concat([this.#pending, buffer.subarray(0, bytesRead)]);
    return bytesRead > 0;
  }

  async #checkSize(handle: FileHandle): Promise<void> {
    const { size } = await handle.stat();
    this.#bytes ??= size;
    if (this.#bytes === size) return;
    const what = `had ${this.#bytes} bytes when reading began and has ${size} now. Do not change it during a run.`;
    throw new ScenarioFileError(this.#path, null, what);
  }

  #decode(bytes: Buffer): string {
    try {
      // Drops a byte order mark, which editors put before the first line.
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (cause) {
      throw new ScenarioFileError(this.#path, this.#line, 'The line is not UTF-8.', { cause });
    }
  }
}
