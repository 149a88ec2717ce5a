import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { byteLines } from '../util/json-lines.ts';

/** Begins the line of a group. */
const groupPattern = /^\{"group":(\d+)[,}]/;
const patternBytes = 32;

/** Where the lines of groups are in a journal or in a file of tokens. A later line of a group counts. */
export class GroupLines {
  readonly #path: string;
  readonly #ranges: ReadonlyMap<number, { start: number; end: number }>;

  private constructor(path: string, ranges: ReadonlyMap<number, { start: number; end: number }>) {
    this.#path = path;
    this.#ranges = ranges;
  }

  static async find(path: string): Promise<GroupLines> {
    const ranges = new Map<number, { start: number; end: number }>();
    let start = 0;
    for await (const { bytes, end } of byteLines(createReadStream(path))) {
      const group = groupPattern.exec(bytes.toString('latin1', 0, patternBytes))?.[1];
      if (group !== undefined) ranges.set(Number(group), { start, end });
      start = end;
    }
    return new GroupLines(path, ranges);
  }

  has(group: number): boolean {
    return this.#ranges.has(group);
  }

  /** The line of a group, or of one seat of a group, with its line end. @throws RangeError if there is none. */
  async read(group: number): Promise<Buffer> {
    const range = this.#ranges.get(group);
    if (!range) throw new RangeError(`${this.#path} has no record of group ${group}`);
    await using file = await open(this.#path, 'r');
    const line = Buffer.allocUnsafe(range.end - range.start);
    const { bytesRead } = await file.read(line, 0, line.length, range.start);
    if (bytesRead < line.length) throw new RangeError(`${this.#path} ends in the record of group ${group}`);
    return line;
  }
}
