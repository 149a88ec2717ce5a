import { open, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { SamplingOverride } from '../model/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  parseGroupRecord,
  type RolloutGroup,
  toGroupRecord,
} from '../rollout/index.ts';
import { appendLine, makeFolder, syncFolder, writeWhole } from '../util/durable-files.ts';
import { takeUpLines } from '../util/json-lines.ts';
import { RunError } from '../util/run-error.ts';
import { storing } from './storage.ts';

/** What must be the same for an evaluation to go on from what another call of it left. */
export interface EvaluationHeader {
  environment: string;
  policy: string;
  seed: number;
  rolloutsPerScenario: number;
  temperature: number | 'agent';
  /** What the model's own settings set over the agent. */
  sampling: SamplingOverride;
  groupStrategy: object | null;
  scenarios: number;
  /** Digest of the scenarios' keys in their order. */
  scenarioKeys: string;
}

const headerFile = 'evaluation.json';
const groupsFile = 'groups.jsonl';

/**
 * An evaluation on disk:
 *
 *     evaluation.json   what is evaluated: an EvaluationHeader
 *     groups.jsonl      a GroupRecord a line, in the order in which the groups ended; of a group that was run again,
 *                       the later line counts
 */
export class EvaluationDirectory {
  /** Groups of earlier calls, by their index. */
  readonly finished: ReadonlyMap<number, RolloutGroup>;
  readonly #file: string;
  #appends: Promise<void> = Promise.resolve();

  private constructor(file: string, finished: ReadonlyMap<number, RolloutGroup>) {
    this.#file = file;
    this.finished = finished;
  }

  /** @throws RunError where the folder holds something else (it says what differs) or cannot be written. */
  static async open(path: string, header: EvaluationHeader): Promise<EvaluationDirectory> {
    const folder = resolve(path);
    await storing(folder, () => makeFolder(folder));
    const names = await readdir(folder);
    if (names.includes(headerFile)) await checkHeader(join(folder, headerFile), header);
    else if (names.some((name) => name !== `${headerFile}.partial`)) {
      throw new RunError(
        'evaluation_directory_refused',
        `${folder} is not empty and has no ${headerFile}. Give an evaluation a folder of its own.`,
      );
    } else
      await storing(join(folder, headerFile), () =>
        writeWhole(join(folder, headerFile), [`${JSON.stringify(header, null, 2)}\n`]),
      );
    const file = join(folder, groupsFile);
    const finished = await storing(file, () => readGroups(file));
    await storing(file, async () => {
      await using made = await open(file, 'a', 0o600);
      await made.sync();
      await syncFolder(folder);
    });
    return new EvaluationDirectory(file, finished);
  }

  /** Durable when it returns. @throws RunError (`storage_failed`), and then for every later group. */
  append(group: RolloutGroup): Promise<void> {
    // After a failure no more: behind a part of a line, the next one could not be read.
    this.#appends = this.#appends.then(() =>
      storing(this.#file, () => appendLine(this.#file, toGroupRecord(group), { durable: true })),
    );
    this.#appends.catch(() => undefined);
    return this.#appends;
  }
}

async function checkHeader(path: string, header: EvaluationHeader): Promise<void> {
  let saved: unknown;
  try {
    saved = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new RunError('evaluation_directory_refused', `${path} cannot be read: ${String(cause)}`, { cause });
  }
  const fields = new Map(Object.entries(typeof saved === 'object' && saved !== null ? saved : {}));
  const differences = Object.entries(header)
    .map(([name, value]) => [name, JSON.stringify(fields.get(name)), JSON.stringify(value)] as const)
    .filter(([, was, is]) => was !== is)
    .map(([name, was, is]) => `\`${name}\` was ${was} and is ${is}`);
  if (differences.length === 0) return;
  throw new RunError(
    'evaluation_directory_refused',
    `${path} is of another evaluation: ${differences.join('; ')}. Choose another folder, or ask for the same.`,
  );
}

/** Cuts off what a killed process left of its last line, so that the next group begins a new line. */
async function readGroups(path: string): Promise<Map<number, RolloutGroup>> {
  const groups = new Map<number, RolloutGroup>();
  let line = 0;
  for await (const text of takeUpLines(path)) {
    const record = readLine(path, ++line, text);
    groups.set(record.group, fromGroupRecord(record));
  }
  return groups;
}

function readLine(path: string, line: number, text: string): GroupRecord {
  try {
    return parseGroupRecord(text);
  } catch (cause) {
    throw new RunError(
      'evaluation_directory_refused',
      `${path}:${line}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  }
}
