import { type FileHandle, open } from 'node:fs/promises';
import { z } from 'zod';
import { positionError, ScenarioError, scenarioFileError } from '../errors.ts';
import { type KeyFunction, keyWith } from './scenario-key.ts';
import type { DrawnScenario } from './scenario-source.ts';
import { type Cursor, readState, type Stage, type StageDescription } from './stage.ts';

/** The last line given: its number, byte offset and key, and the size of the file. */
const stateSchema = z
  .object({
    bytes: z.int().nonnegative(),
    line: z.int().positive(),
    byte: z.int().nonnegative(),
    key: z.string(),
  })
  .nullable();

/** A file with one scenario per line, read while scenarios are drawn. Seeking goes directly to a byte offset. */
export class JsonLinesStage<Scenario> implements Stage<Scenario> {
  readonly extent = 'finite';
  readonly size = null;
  readonly learns = false;
  readonly #path: string;
  readonly #schema: z.ZodType<Scenario>;
  readonly #key: KeyFunction<Scenario> | undefined;

  constructor(path: string, schema: z.ZodType<Scenario>, key: KeyFunction<Scenario> | undefined) {
    this.#path = path;
    this.#schema = schema;
    this.#key = key;
  }

  /** Without the path: the file may move between runs. */
  describe(): StageDescription {
    return { kind: 'json_lines' };
  }

  open(): Cursor<Scenario> {
    let lines = new FileLines(this.#path);
    let last: z.output<typeof stateSchema> = null;
    const next = async () => {
      const found = await lines.next();
      if (!found) return null;
      const drawn = await this.#read(found);
      last = { bytes: lines.bytes ?? 0, line: found.line, byte: found.byte, key: drawn.key };
      return drawn;
    };
    return {
      next,
      state: () => last,
      restore: async (state) => {
        const saved = readState('json_lines', stateSchema, state);
        lines = new FileLines(this.#path, saved ?? undefined);
        last = null;
        if (!saved) return;
        const drawn = await next();
        if (lines.bytes === saved.bytes && drawn?.key === saved.key) return;
        throw positionError(
          `The position is at line ${saved.line} of a file of ${saved.bytes} bytes, and ${this.#path} ` +
            (lines.bytes === saved.bytes
              ? 'has another scenario there. It has been changed, or is another file.'
              : `has ${lines.bytes ?? 0}. It has been changed, or is another file.`),
        );
      },
      observe: () => undefined,
      reports: () => [],
      close: async () => undefined,
    };
  }

  async #read({ text, line }: FileLine): Promise<DrawnScenario<Scenario>> {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      const what = cause instanceof Error ? cause.message : String(cause);
      throw scenarioFileError(this.#path, line, `The line is not JSON: ${what}`, { cause });
    }
    const parsed = await this.#schema.safeParseAsync(value);
    if (!parsed.success) {
      const what = `The scenario does not fit the schema: ${parsed.error.message}`;
      throw scenarioFileError(this.#path, line, what, { cause: parsed.error });
    }
    return { scenario: parsed.data, key: keyWith(parsed.data, this.#key) };
  }
}

export interface FileLine {
  text: string;
  /** Counted from 1. */
  line: number;
  /** Byte offset of the line. */
  byte: number;
}

const lineFeed = 0x0a;
const chunkBytes = 65_536;

/** The lines of a file that are not blank. The file is read in chunks and closed between them. */
export class FileLines {
  readonly #path: string;
  /** Byte offset and number of the line that `#pending` begins with. */
  #byte: number;
  #line: number;
  #pending: Buffer = Buffer.alloc(0);
  #bytes: number | null = null;

  constructor(path: string, { line, byte }: { line: number; byte: number } = { line: 1, byte: 0 }) {
    this.#path = path;
    this.#byte = byte;
    this.#line = line;
  }

  /** Size of the file; null before the first read. */
  get bytes(): number | null {
    return this.#bytes;
  }

  /**
   * Null at the end.
   * @throws ScenarioError (`invalid_scenario_file`) if the file cannot be read or its size has changed.
   */
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
      if (error instanceof ScenarioError) throw error;
      const what = error instanceof Error ? error.message : String(error);
      throw scenarioFileError(this.#path, null, `cannot be read: ${what}`, { cause: error });
    }
    this.#pending = Buffer.concat([this.#pending, buffer.subarray(0, bytesRead)]);
    return bytesRead > 0;
  }

  async #checkSize(handle: FileHandle): Promise<void> {
    const { size } = await handle.stat();
    this.#bytes ??= size;
    if (this.#bytes === size) return;
    const what = `had ${this.#bytes} bytes when reading began and has ${size} now. Do not change it during a run.`;
    throw scenarioFileError(this.#path, null, what);
  }

  #decode(bytes: Buffer): string {
    try {
      // TextDecoder drops the byte order mark that some editors write.
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (cause) {
      throw scenarioFileError(this.#path, this.#line, 'The line is not UTF-8.', { cause });
    }
  }
}
