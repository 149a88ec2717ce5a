import { appendFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { appendLine, makeFolder, readIfExists } from '../../util/durable-files.ts';
import { OptionError } from '../../util/option-error.ts';
import { warn } from '../../util/warning.ts';
import { describeThrown } from '../thrown.ts';

const lineSchema = z.object({ key: z.string(), verdict: z.unknown() });

/** Verdicts by the hash of their model, settings and prompt: in memory, and in the `cacheFile` if there is one. */
export class VerdictCache {
  readonly #file: string | undefined;
  readonly #verdicts: LRUCache<string, { verdict: unknown }>;
  #opened: Promise<void> | undefined;

  constructor({ file, size }: { file: string | undefined; size: number }) {
    this.#file = file;
    this.#verdicts = new LRUCache({ max: size });
  }

  /** @throws OptionError if the file cannot be read or has lines that are not verdicts. */
  async get(key: string): Promise<unknown> {
    this.#opened ??= this.#open();
    await this.#opened;
    return this.#verdicts.get(key)?.verdict;
  }

  /** Resolves when the verdict is written. A failed write is only a warning: the verdict is paid for and still usable. */
  async set(key: string, verdict: unknown): Promise<void> {
    this.#verdicts.set(key, { verdict });
    const file = this.#file;
    if (file === undefined) return;
    try {
      await appendLine(file, { key, verdict });
    } catch (error) {
      warn(
        'martingale_verdict_not_stored',
        `The verdict cannot be stored in "${file}": ${describeThrown(error)}`,
      );
    }
  }

  async #open(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    const refusal = (problem: string, cause?: unknown) =>
      new OptionError('invalid_judge_option', `\`cacheFile\` "${file}" ${problem}`, {
        option: 'cacheFile',
        value: file,
        cause,
      });
    const lines = await readLines(file).catch((error: unknown) => {
      throw refusal(`cannot be read: ${describeThrown(error)}`, error);
    });
    for (const [index, line] of lines.entries()) {
      const entry = parseLine(line);
      if (entry) this.#verdicts.set(entry.key, { verdict: entry.verdict });
      // A partial line that a later run completed with a line break is no error.
      else if (line !== '' && !line.startsWith('{"key":'))
        throw refusal(`has something other than a verdict in line ${index + 1}.`);
    }
  }
}

/** A process that was killed during a write leaves a partial last line. That verdict is requested again. */
async function readLines(file: string): Promise<string[]> {
  await makeFolder(dirname(file));
  const lines = ((await readIfExists(file)) ?? '').split('\n');
  if (lines.pop() !== '') await appendFile(file, '\n');
  return lines;
}

function parseLine(line: string): z.output<typeof lineSchema> | undefined {
  try {
    return lineSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}
