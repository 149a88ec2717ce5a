import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { hasCode } from '../../util/error.ts';
import { OptionError } from '../../util/option-error.ts';
import { describeThrown } from '../thrown.ts';

const lineSchema = z.object({ key: z.string(), verdict: z.unknown() });

/** Verdicts by the hash of their model, settings and prompt: in memory, and in the `cacheFile` if there is one. */
export class VerdictCache {
  readonly #file: string | undefined;
  readonly #known: LRUCache<string, { verdict: unknown }>;
  #opened: Promise<void> | undefined;
  #written: Promise<void> = Promise.resolve();

  constructor({ file, size }: { file: string | undefined; size: number }) {
    this.#file = file;
    this.#known = new LRUCache({ max: size });
  }

  /** @throws OptionError if the file cannot be read or has lines that are not verdicts. */
  async get(key: string): Promise<unknown> {
    this.#opened ??= this.#open();
    await this.#opened;
    return this.#known.get(key)?.verdict;
  }

  /** Resolves when the verdict is written. A failed write is only a warning: the verdict is paid for and still usable. */
  async set(key: string, verdict: unknown): Promise<void> {
    this.#known.set(key, { verdict });
    const file = this.#file;
    if (file === undefined) return;
    const line = `${JSON.stringify({ key, verdict })}\n`;
    this.#written = this.#written
      .then(() => appendFile(file, line, { mode: 0o600 }))
      .catch((error: unknown) => {
        process.emitWarning(`The verdict cannot be kept in "${file}": ${describeThrown(error)}`, {
          type: 'MartingaleWarning',
          code: 'verdict_not_kept',
        });
      });
    await this.#written;
  }

  async #open(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    const text = await readOrMake(file);
    const lines = text.split('\n');
    // A process that was killed during a write leaves a partial last line. That verdict is requested again.
    const torn = lines.pop() ?? '';
    if (torn !== '') await appendFile(file, '\n');
    for (const [at, line] of lines.entries()) {
      if (line === '') continue;
      const read = parseLine(line);
      // A partial line that a later run completed with a line break.
      if (read) this.#known.set(read.key, { verdict: read.verdict });
      else if (line.startsWith('{"key":')) continue;
      else throw cacheError(file, `has something other than a verdict in line ${at + 1}.`);
    }
  }
}

/** @throws OptionError if the file cannot be read or its folder cannot be created. */
async function readOrMake(file: string): Promise<string> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    return await readFile(file, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return '';
    throw cacheError(file, `cannot be read: ${describeThrown(error)}`, error);
  }
}

function parseLine(line: string): { key: string; verdict: unknown } | undefined {
  try {
    const { data } = lineSchema.safeParse(JSON.parse(line));
    return data && { key: data.key, verdict: data.verdict };
  } catch {
    return undefined;
  }
}

function cacheError(file: string, what: string, cause?: unknown): OptionError {
  return new OptionError('invalid_judge_option', `\`cacheFile\` "${file}" ${what}`, {
    option: 'cacheFile',
    value: file,
    cause,
  });
}
