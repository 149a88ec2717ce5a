import { readdir, rm, rmdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { RunEvent, StepReport } from '../progress/index.ts';
import { fromGroupRecord, fromGroupRecords, parseGroupRecord, type RolloutGroup } from '../rollout/index.ts';
import {
  appendLine,
  DurableAppends,
  makeFolder,
  readIfExists,
  storing,
  writeAtomically,
} from '../util/durable-files.ts';
import type { FileLock } from '../util/file-lock.ts';
import { resumeLines } from '../util/json-lines.ts';
import { RunError } from '../util/run-error.ts';
import { runOptionError } from './errors.ts';
import { GroupLines } from './group-lines.ts';
import { KeptLines, linesOfGroup } from './kept-lines.ts';
import { begunFiles, isRun, lockRun, stepName, tokensFile } from './run-files.ts';
import {
  type GroupTokens,
  jobRecordSchema,
  loggingSchema,
  runStateSchema,
  stepReportSchema,
  warmStartRecordSchema,
} from './run-state.ts';

/** A JSON file of a run: its path in the run directory, and its schema. */
interface RunFile<Schema extends z.ZodType> {
  path: string;
  schema: Schema;
}

const fileOf = <Schema extends z.ZodType>(path: string, schema: Schema): RunFile<Schema> => ({
  path,
  schema,
});

const anyObject = z.record(z.string(), z.unknown());

/** The JSON files of a run, for `RunDirectory.read` and `write`. */
export const runFiles = {
  config: fileOf('config.json', anyObject),
  state: fileOf('state.json', runStateSchema),
  summary: fileOf('summary.json', anyObject),
  warmStart: fileOf('jobs/warm-start.json', warmStartRecordSchema),
  /** A training job, by `stepName` of its learner. */
  job: (name: string) => fileOf(`jobs/${name}.json`, jobRecordSchema),
  /** Whether a service without idempotency keys has stored the groups of a step or validation. */
  logged: (name: string) => fileOf(`logged/${name}.json`, loggingSchema),
};

/**
 * A run on disk, from which it can be resumed:
 *
 *     config.json                           the options of the run, and the versions it began with
 *     state.json                            the state of the run: finished steps, checkpoints, position of the source
 *     metrics.jsonl                         one StepReport per line
 *     events.jsonl                          one RunEvent with its time per line (without the progress of rollouts)
 *     trajectories/step-0000.jsonl          one GroupRecord per line, in order; written when all rollouts have ended
 *     trajectories/step-0000.journal.jsonl  the same, in the order in which groups ended; deleted when the step ends
 *     trajectories/before.jsonl             the groups of a validation, under its name
 *     evaluations/step-0000/                a validation in progress, under the number of finished steps
 *     jobs/step-0000.json                   the training job: its request (by reference), id and outcome
 *     tokens/step-0000.jsonl                what the job found of the sampled tokens, one group per line, if the service
 *                                           tells it
 *     jobs/warm-start.json                  the same for the supervised training before the first step
 *     logged/step-0000.json                 whether a service without idempotency keys has stored the groups
 *     summary.json                          how the run ended
 *     run.lock                              locked by the process of the run; a leftover file does not block others
 *
 * Whole files appear under their name only when complete; lines are appended. Everything except events is durable when
 * the call returns.
 */
export class RunDirectory {
  readonly path: string;
  readonly #lock: FileLock;
  /** What existed before a new run: an empty folder or nothing. Null for a resumed run. */
  readonly #before: 'folder' | 'nothing' | null;
  /** Chain of event appends. A failure stops it, and `settle` throws the error. */
  #appends: Promise<void> = Promise.resolve();
  readonly #metrics: DurableAppends;
  /** The journals of the unfinished steps. */
  readonly #journals = new Map<number, DurableAppends>();
  /** Lines of groups in a journal, which the step's own file holds too. */
  readonly #lines = new KeptLines();

  private constructor(path: string, lock: FileLock, before: 'folder' | 'nothing' | null) {
    this.path = path;
    this.#metrics = new DurableAppends(join(path, 'metrics.jsonl'));
    this.#lock = lock;
    this.#before = before;
  }

  /** @throws OptionError if the folder is not empty; RunError if another run has just begun in it. */
  static async create(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    const before = await readdir(absolute).catch(() => null);
    await makeOwnFolder(absolute);
    if ((await readdir(absolute)).length > 0)
      throw runOptionError(
        'runDirectory',
        `The run directory ${absolute} is not empty. Choose another, move it away, or resume the run in it: ` +
          '`resume: true`.',
      );
    return RunDirectory.#open(absolute, before ? 'folder' : 'nothing');
  }

  /**
   * Resumes the run in the folder, or creates one if it is empty. @throws OptionError if it contains something else.
   */
  static async open(path: string): Promise<RunDirectory> {
    const names = await readdir(path).catch(() => []);
    return names.length > 0 && isRun(names) ? RunDirectory.resume(path) : RunDirectory.create(path);
  }

  /** @throws RunError if the folder does not contain a run, or the run is still in progress. */
  static async resume(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    const names = await readdir(absolute).catch(() => undefined);
    if (!names) throw refused(`There is no run directory ${absolute} to resume. Remove \`resume\`.`);
    if (!isRun(names)) throw refused(`${absolute} has no config.json: it is not the directory of a run.`);
    return RunDirectory.#open(absolute, null);
  }

  static async #open(absolute: string, before: 'folder' | 'nothing' | null): Promise<RunDirectory> {
    const lock = lockRun(absolute);
    try {
      await makeOwnFolder(join(absolute, 'trajectories'));
      await makeOwnFolder(join(absolute, 'jobs'));
    } catch (error) {
      lock.release();
      throw error;
    }
    return new RunDirectory(absolute, lock, before);
  }

  /** Releases the lock. May be called repeatedly. */
  release(): void {
    this.#lock.release();
  }

  /** Deletes the files of a new run that failed before its model was open. Leaves a resumed run unchanged. */
  async discard(): Promise<void> {
    if (this.#before === null) return;
    await this.#appends.catch(() => undefined);
    this.release();
    for (const name of [...begunFiles, 'config.json'])
      await rm(join(this.path, name), { recursive: true, force: true });
    if (this.#before === 'nothing') await rmdir(this.path);
  }

  /** Writes one of `runFiles`. */
  async write<Schema extends z.ZodType>(file: RunFile<Schema>, value: z.input<Schema>): Promise<void> {
    if (file.path.startsWith('logged/')) await makeOwnFolder(join(this.path, 'logged'));
    await this.#writeAtomically(file.path, [`${JSON.stringify(value, null, 2)}\n`]);
  }

  /** Reads one of `runFiles`. Undefined if it does not exist. @throws RunError if it is invalid. */
  async read<Schema extends z.ZodType>(file: RunFile<Schema>): Promise<z.output<Schema> | undefined> {
    const path = join(this.path, file.path);
    const text = await readIfExists(path);
    if (text === undefined) return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw refused(`${path} is not JSON: ${String(cause)}`, { cause });
    }
    return parse(path, file.schema, value);
  }

  /**
   * Returns the file's path relative to the run directory. `step`: an unfinished one, whose journal has the groups of
   * released trajectories.
   */
  async writeTrajectories(name: string, groups: readonly RolloutGroup[], step?: number): Promise<string> {
    const file = trajectoriesFile(name);
    await this.#writeAtomically(file, this.#linesOf(groups, step));
    return file;
  }

  async *#linesOf(groups: readonly RolloutGroup[], step?: number): AsyncGenerator<string | Uint8Array> {
    let journal: GroupLines | undefined;
    for (const group of groups) {
      const kept = this.#lines.take(group);
      if (kept !== undefined) yield kept;
      else if (step === undefined || !group.isReleased) yield linesOfGroup(group);
      else {
        journal ??= await GroupLines.find(this.#journalOf(step));
        for (const { index } of group.bySeat()) yield await journal.read(index);
      }
    }
  }

  /** A group, or one seat of a group, from the journal of an unfinished step. */
  async readGroup(step: number, index: number): Promise<RolloutGroup> {
    const journal = await GroupLines.find(this.#journalOf(step));
    return fromGroupRecord(parseGroupRecord((await journal.read(index)).toString('utf8')));
  }

  async writeTokens(step: number, groups: Iterable<GroupTokens>): Promise<void> {
    await makeOwnFolder(join(this.path, 'tokens'));
    await this.#writeAtomically(tokensFile(step), linesOf(groups));
  }

  /**
   * Appends a finished group to the journal of an unfinished step. Groups that end while others are being written are
   * written together.
   */
  appendToJournal(step: number, group: RolloutGroup): Promise<void> {
    const journal = this.#journals.get(step) ?? new DurableAppends(this.#journalOf(step));
    this.#journals.set(step, journal);
    return journal.append(() => this.#lines.make(group));
  }

  /** Groups in the journal of a step that was interrupted, by index. */
  async readJournal(step: number): Promise<Map<number, RolloutGroup>> {
    const lines = await repairLines(this.#journalOf(step));
    return fromGroupRecords(lines.map(parseGroupRecord));
  }

  /** Rewrites the journal of a step so that it holds only these groups. */
  rewriteJournal(step: number, groups: Iterable<RolloutGroup>): Promise<void> {
    return this.#writeAtomically(journalFile(step), groupLines(groups));
  }

  /** Deletes the journal of a finished step: its groups are in the step's own file. */
  deleteJournal(step: number): Promise<void> {
    this.#journals.delete(step);
    const path = this.#journalOf(step);
    return storing(path, () => rm(path, { force: true }));
  }

  /** Folder of a validation in progress. */
  evaluationFolder(finishedSteps: number): string {
    return join(this.path, 'evaluations', stepName(finishedSteps));
  }

  appendMetrics(report: StepReport): Promise<void> {
    return this.#metrics.append(() => `${JSON.stringify(report)}\n`);
  }

  /** Reads the first `count` reports, and cuts off what an interrupted step left after them. */
  async readMetrics(count: number): Promise<StepReport[]> {
    const path = join(this.path, 'metrics.jsonl');
    const lines = await repairLines(path, count);
    if (lines.length < count)
      throw refused(`${path} has ${lines.length} lines, but ${count} steps are finished.`);
    return lines.map((line) => parse(path, stepReportSchema, JSON.parse(line)));
  }

  async repairEvents(): Promise<void> {
    await repairLines(join(this.path, 'events.jsonl'));
  }

  appendEvent(event: RunEvent): void {
    // Reports of finished steps are in metrics.jsonl.
    const line = { time: new Date().toISOString(), ...event, finishedReports: undefined };
    const path = join(this.path, 'events.jsonl');
    this.#appends = this.#appends.then(() => storing(path, () => appendLine(path, line)));
    // `settle` reports the error; until then it must not count as an unhandled rejection.
    this.#appends.catch(() => undefined);
  }

  /** Waits until all events are written. @throws the first write error. */
  async settle(): Promise<void> {
    await this.#appends;
  }

  #journalOf(step: number): string {
    return join(this.path, journalFile(step));
  }

  #writeAtomically(
    file: string,
    pieces: Iterable<string> | AsyncIterable<string | Uint8Array>,
  ): Promise<void> {
    const path = join(this.path, file);
    return storing(path, () => writeAtomically(path, pieces));
  }
}

function parse<Schema extends z.ZodType>(path: string, schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw refused(`${path} cannot be read: ${parsed.error.message}`, { cause: parsed.error });
}

/** File of the groups of a step or validation, relative to the run directory. */
export const trajectoriesFile = (name: string) => `trajectories/${name}.jsonl`;

const journalFile = (step: number) => `trajectories/${stepName(step)}.journal.jsonl`;

const refused = (message: string, options?: ErrorOptions) => new RunError('resume_refused', message, options);

const makeOwnFolder = (path: string) => storing(path, () => makeFolder(path));

const repairLines = (path: string, count?: number) =>
  storing(path, async () => {
    const lines: string[] = [];
    for await (const line of resumeLines(path, count)) lines.push(line);
    return lines;
  });

/** Makes the lines of one group at a time, so that the event loop gets a tick between groups. */
function* groupLines(groups: Iterable<RolloutGroup>): Generator<string> {
  for (const group of groups) yield linesOfGroup(group);
}

function* linesOf(values: Iterable<unknown>): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`;
}
