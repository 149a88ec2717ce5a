import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { RunRecordError } from './errors.ts';

/** The lines of a file as they are read; none where it does not exist. */
async function* readLines(file: string): AsyncGenerator<string, undefined> {
  try {
    yield* createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/**
 * The values of a file of JSON lines, without a last line that a killed process left half written.
 * @throws RunRecordError for any other line that is not JSON.
 */
export async function* readJsonLines(file: string): AsyncGenerator<unknown, undefined> {
  let broken: { line: number; cause: unknown } | undefined;
  let line = 0;
  for await (const text of readLines(file)) {
    line++;
    if (broken) throw new RunRecordError(`Line ${broken.line} of ${file} is not JSON.`, broken);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      broken = { line, cause };
      continue;
    }
    yield value;
  }
}

export const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';
