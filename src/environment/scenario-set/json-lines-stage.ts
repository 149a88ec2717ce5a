import { z } from 'zod';
import { ScenarioFileError, ScenarioPositionError } from './errors.ts';
import { type FileLine, FileLines } from './file-lines.ts';
import { type KeyFunction, keyWith } from './scenario-key.ts';
import type { DrawnScenario } from './scenario-source.ts';
import { type Cursor, readState, type Stage, type StageDescription } from './stage.ts';

/** The line that was given last: its place, its key, and the size of the file it was found in. */
const stateSchema = z
  .object({
    bytes: z.int().nonnegative(),
    line: z.int().positive(),
    byte: z.int().nonnegative(),
    key: z.string(),
  })
  .nullable();

/** A scenario a line, read as they are drawn. A position is a place in the file, gone to directly. */
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

  /** Not the path: a set may be read from another place after it has moved. */
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
        throw new ScenarioPositionError(
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
      throw new ScenarioFileError(this.#path, line, `The line is not JSON: ${what}`, { cause });
    }
    const parsed = await this.#schema.safeParseAsync(value);
    if (!parsed.success) {
      const what = `The scenario does not fit the schema: ${parsed.error.message}`;
      throw new ScenarioFileError(this.#path, line, what, { cause: parsed.error });
    }
    return { scenario: parsed.data, key: keyWith(parsed.data, this.#key) };
  }
}
