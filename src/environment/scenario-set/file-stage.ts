import { open as openFile } from 'node:fs/promises';
import { z } from 'zod';
import { byteLines } from '../../util/json-lines.ts';
import { isLfsPointer, lfsProblem } from '../../util/lfs-pointer.ts';
import { problemsOf } from '../../util/show-value.ts';
import { positionError, scenarioFileError } from '../errors.ts';
import { describeThrown } from '../thrown.ts';
import { type KeyFunction, keyWith } from './scenario-key.ts';
import { type Cursor, type DrawnScenario, readState, type Stage } from './stage.ts';

/** The last line drawn: its number, byte offset and key, and the size of the file. */
const stateSchema = z
  .object({
    bytes: z.int().nonnegative(),
    line: z.int().positive(),
    byte: z.int().nonnegative(),
    key: z.string(),
  })
  .nullable();

/** A file with one scenario per line, read while scenarios are drawn. Seeking goes directly to a byte offset. */
export function jsonLinesStage<Scenario>(
  path: string,
  schema: z.ZodType<Scenario>,
  key: KeyFunction<Scenario> | undefined,
): Stage<Scenario> {
  const parse = async ({ text, line }: FileLine): Promise<DrawnScenario<Scenario>> => {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      if (line === 1 && isLfsPointer(Buffer.from(text))) throw scenarioFileError(path, null, lfsProblem);
      const remedy = 'Each line must be one JSON value; NaN, Infinity and comments are none.';
      const what = `The line is not JSON: ${describeThrown(cause)}. ${remedy}`;
      throw scenarioFileError(path, line, what, { cause });
    }
    const { data, error, success } = await schema.safeParseAsync(value);
    if (success) {
      const rounded = roundedNumber(text, data);
      if (rounded) throw scenarioFileError(path, line, rounded);
      return { scenario: data, key: keyWith(data, key) };
    }
    const what = `The scenario does not fit the schema: ${problemsOf('scenario', value, error)}`;
    throw scenarioFileError(path, line, what, { cause: error });
  };
  const open = (): Cursor<Scenario> => {
    let file = new ScenarioFile(path);
    let lines = file.lines();
    let last: z.output<typeof stateSchema> = null;
    const next = async () => {
      const { value: found } = await lines.next();
      if (!found) return null;
      const drawn = await parse(found);
      last = { bytes: file.bytes ?? 0, line: found.line, byte: found.byte, key: drawn.key };
      return drawn;
    };
    const restore = async (state: unknown) => {
      const saved = readState('json_lines', stateSchema, state);
      file = new ScenarioFile(path);
      lines = file.lines(saved ?? undefined);
      last = null;
      if (!saved) return;
      const drawn = await next();
      if (file.bytes === saved.bytes && drawn?.key === saved.key) return;
      throw positionError(
        `The position is line ${saved.line} of a file with ${saved.bytes} bytes. ${path} has ` +
          (file.bytes === saved.bytes ? 'another scenario there' : `${file.bytes ?? 0} bytes`) +
          ': it has changed or is another file.',
      );
    };
    return { next, state: () => last, restore };
  };
  // The description does not name the path: the file may move between runs.
  return { extent: 'finite', size: null, learns: false, describe: () => ({ kind: 'json_lines' }), open };
}

/** A text, or a whole number that may have more digits than a JavaScript number holds. */
const textOrLongNumber = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+])-?\d{16,}(?![\d.eE])/g;

/** What is wrong with a scenario that has a whole number of its line with other digits; null if none has. */
function roundedNumber(text: string, scenario: unknown): string | null {
  if (!/\d{16}/.test(text)) return null;
  const sources = new Map<string, string>();
  for (const [source] of text.matchAll(textOrLongNumber))
    if (!source.startsWith('"') && BigInt(source) !== BigInt(Number(source)))
      sources.set(String(Number(source)), source);
  // A schema may leave the number out, make a text of it, or make an object that contains itself.
  const values = new Set<unknown>(sources.size === 0 ? [] : [scenario]);
  for (const value of values) {
    if (typeof value === 'object' && value !== null) {
      for (const inner of Object.values(value)) values.add(inner);
      continue;
    }
    const kept = String(typeof value === 'bigint' ? Number(value) : value);
    const source = sources.get(kept);
    if (source !== undefined)
      return `The scenario has the number ${source}, of which JavaScript keeps ${kept}. Write it as a text: "${source}".`;
  }
  return null;
}

interface FileLine {
  text: string;
  /** Counted from 1. */
  line: number;
  /** Byte offset of the line. */
  byte: number;
}

const chunkBytes = 65_536;

/** @throws ScenarioError (`invalid_scenario_file`) if the file cannot be read or its size has changed. */
class ScenarioFile {
  readonly #path: string;
  #bytes: number | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Size of the file; null before the first read. */
  get bytes(): number | null {
    return this.#bytes;
  }

  /** The lines that are not blank, from `start` on. */
  async *lines(start: Omit<FileLine, 'text'> = { line: 1, byte: 0 }): AsyncGenerator<FileLine, undefined> {
    let { byte } = start;
    for await (const { bytes, number, end } of byteLines(this.#chunks(byte))) {
      const line = start.line + number - 1;
      const text = this.#decode(bytes, line);
      if (text.trim() !== '') yield { text, line, byte };
      byte = start.byte + end;
    }
  }

  /** Closes the file after each chunk: a run may draw from it for days. */
  async *#chunks(start: number): AsyncGenerator<Buffer, undefined> {
    for (let at = start; ; ) {
      const chunk = await this.#readChunk(at).catch((cause: unknown) => {
        throw scenarioFileError(this.#path, null, `cannot be read: ${describeThrown(cause)}`, { cause });
      });
      if (chunk.length === 0) return;
      at += chunk.length;
      yield chunk;
    }
  }

  async #readChunk(at: number): Promise<Buffer> {
    await using handle = await openFile(this.#path);
    const { size } = await handle.stat();
    this.#bytes ??= size;
    if (this.#bytes !== size)
      throw new Error(
        `it had ${this.#bytes} bytes when reading began and has ${size} now. Do not change it during a run.`,
      );
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(chunkBytes), 0, chunkBytes, at);
    return buffer.subarray(0, bytesRead);
  }

  #decode(bytes: Buffer, line: number): string {
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (cause) {
      throw scenarioFileError(this.#path, line, 'The line is not UTF-8.', { cause });
    }
  }
}
