import { readdir, rm, rmdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { storing } from '../evaluation/index.ts';
import type { RunEvent, StepReport } from '../progress/index.ts';
import { fromGroupRecord, parseGroupRecord, type RolloutGroup, toGroupRecord } from '../rollout/index.ts';
import { appendLine, makeFolder, readIfThere, writeWhole } from '../util/durable-files.ts';
import { takeUpLines } from '../util/json-lines.ts';
import { RunError } from '../util/run-error.ts';
import { runOptionError } from './errors.ts';
import { begunFiles, isRun, lockRun, type RunLock, stepName } from './run-files.ts';
import {
  type JobRecord,
  jobRecordSchema,
  type LoggingState,
  loggingSchema,
  type RunState,
  runStateSchema,
  stepReportSchema,
  type WarmStartRecord,
  warmStartRecordSchema,
} from './run-state.ts';

const configSchema = z.record(z.string(), z.unknown());
const warmStartFile = 'jobs/warm-start.json';
const jobFile = (step: number) => `jobs/${stepName(step)}.json`;
const loggingFile = (name: string) => `logged/${name}.json`;

/**
 * The record of a run on disk, from which it can be resumed:
 *
 *     config.json                           what was asked for, and what the run was begun with
 *     state.json                            where the run stands: finished steps, checkpoints, the source's position
 *     metrics.jsonl                         a StepReport a line
 *     events.jsonl                          a RunEvent with its time a line (but not the progress of rollouts)
 *     trajectories/step-0000.jsonl          a GroupRecord a line, in order; there when the step's rollouts have ended
 *     trajectories/step-0000.journal.jsonl  the same in the order in which the groups ended; gone with the step's end
 *     trajectories/before.jsonl             the groups of a validation, by its name
 *     evaluations/step-0000/                each validation as it goes on, by the number of finished steps
 *     jobs/step-0000.json                   the training job's request, by reference, its id and what came of it
 *     jobs/warm-start.json                  the same of the supervised training before the first step
 *     logged/step-0000.json                 whether a service without idempotency keys has stored the groups
 *     summary.json                          how the run ended, and its parts where it was resumed
 *     run.lock                              held by the process that runs it; left behind, it holds nobody up
 *
 * Whole files appear under their name only when complete; lines are appended. What is written or appended is durable when
 * the call returns, but for events.
 */
export class RunDirectory {
  readonly path: string;
  readonly #lock: RunLock;
  /** What was there before a new run: its folder, empty, or nothing; null for a run that is resumed. */
  readonly #before: 'folder' | 'nothing' | null;
  /** Appends in order, one at a time; the first failure is kept for `settle`. */
  #appends: Promise<void> = Promise.resolve();
  #journal: Promise<void> = Promise.resolve();

  private constructor(path: string, lock: RunLock, before: 'folder' | 'nothing' | null) {
    this.path = path;
    this.#lock = lock;
    this.#before = before;
  }

  /** @throws OptionError where the folder exists and is not empty, RunError where another has just begun. */
  static async create(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    const before = await readdir(absolute).catch(() => null);
    await makeOwnFolder(absolute);
    if ((await readdir(absolute)).length > 0)
      throw runOptionError(
        'runDirectory',
        `The run directory ${absolute} is not empty. Choose another, move it away, or go on with the run in it: ` +
          '`resume: true`.',
      );
    return RunDirectory.#open(absolute, before ? 'folder' : 'nothing');
  }

  /** The run in the folder where there is one, else a new one. @throws OptionError where it holds something else. */
  static async open(path: string): Promise<RunDirectory> {
    const names = await readdir(path).catch(() => []);
    return names.length > 0 && isRun(names) ? RunDirectory.resume(path) : RunDirectory.create(path);
  }

  /** @throws RunError where the folder does not hold a run, and where it still goes on. */
  static async resume(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    const names = await readdir(absolute).catch(() => undefined);
    if (!names) throw refused(`There is no run directory ${absolute} to go on from. Leave \`resume\` out.`);
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

  /** Lets others go on with the run. Harmless when repeated. */
  release(): void {
    this.#lock.release();
  }

  /** Removes a new run that failed before it had its model. A run that is resumed stays as it was. */
  async discard(): Promise<void> {
    if (this.#before === null) return;
    await this.#appends.catch(() => undefined);
    this.release();
    for (const name of [...begunFiles, 'config.json'])
      await rm(join(this.path, name), { recursive: true, force: true });
    if (this.#before === 'nothing') await rmdir(this.path);
  }

  writeConfig(config: object): Promise<void> {
    return this.#write('config.json', config);
  }

  /** Undefined where there is none, as each of the other records. */
  readConfig(): Promise<Record<string, unknown> | undefined> {
    return this.#read('config.json', configSchema);
  }

  writeState(state: RunState): Promise<void> {
    return this.#write('state.json', state);
  }

  readState(): Promise<RunState | undefined> {
    return this.#read('state.json', runStateSchema);
  }

  writeSummary(summary: object): Promise<void> {
    return this.#write('summary.json', summary);
  }

  writeJob(job: JobRecord): Promise<void> {
    return this.#write(jobFile(job.step), job);
  }

  readJob(step: number): Promise<JobRecord | undefined> {
    return this.#read(jobFile(step), jobRecordSchema);
  }

  writeWarmStart(record: WarmStartRecord): Promise<void> {
    return this.#write(warmStartFile, record);
  }

  readWarmStart(): Promise<WarmStartRecord | undefined> {
    return this.#read(warmStartFile, warmStartRecordSchema);
  }

  async writeLogging(name: string, state: LoggingState): Promise<void> {
    await makeOwnFolder(join(this.path, 'logged'));
    await this.#write(loggingFile(name), { state });
  }

  async readLogging(name: string): Promise<LoggingState | undefined> {
    return (await this.#read(loggingFile(name), loggingSchema))?.state;
  }

  /** Gives the file's path relative to the run directory. */
  async writeTrajectories(name: string, groups: readonly RolloutGroup[]): Promise<string> {
    const file = `trajectories/${name}.jsonl`;
    await this.#writeWhole(file, groupLines(groups));
    return file;
  }

  /** Keeps a group of a step that goes on. */
  async keepGroup(step: number, group: RolloutGroup): Promise<void> {
    const path = this.#journalOf(step);
    const record = toGroupRecord(group);
    // After a failure no more: behind a part of a line, the next one could not be read.
    this.#journal = this.#journal.then(() => append(path, record, { durable: true }));
    this.#journal.catch(() => undefined);
    await this.#journal;
  }

  /** Groups of a step that were kept before the run was interrupted, by their index. */
  async keptGroups(step: number): Promise<Map<number, RolloutGroup>> {
    const lines = await takeUp(this.#journalOf(step));
    const groups = lines.map((line) => fromGroupRecord(parseGroupRecord(line)));
    return new Map(groups.map((group) => [group.index, group]));
  }

  /** Of what was kept of a step, only these stay. */
  keepOnly(step: number, groups: Iterable<RolloutGroup>): Promise<void> {
    return this.#writeWhole(journalFile(step), groupLines(groups));
  }

  /** Of a step that is finished: its groups are in its own file. */
  dropKeptGroups(step: number): Promise<void> {
    const path = this.#journalOf(step);
    return storing(path, () => rm(path, { force: true }));
  }

  /** Where a validation is kept while it goes on. */
  evaluationFolder(finishedSteps: number): string {
    return join(this.path, 'evaluations', stepName(finishedSteps));
  }

  appendMetrics(report: StepReport): Promise<void> {
    return append(join(this.path, 'metrics.jsonl'), report, { durable: true });
  }

  /** The first `count` reports; what an interrupted step has left behind them is cut off. */
  async takeUpMetrics(count: number): Promise<StepReport[]> {
    const path = join(this.path, 'metrics.jsonl');
    const lines = await takeUp(path, count);
    if (lines.length < count)
      throw refused(`${path} has ${lines.length} lines, and ${count} steps were finished.`);
    return lines.map((line) => this.#parse('metrics.jsonl', stepReportSchema, JSON.parse(line)));
  }

  async takeUpEvents(): Promise<void> {
    await takeUp(join(this.path, 'events.jsonl'));
  }

  appendEvent(event: RunEvent): void {
    // The finished steps' reports stand in the file beside it.
    const line = { time: new Date().toISOString(), ...event, finishedReports: undefined };
    const path = join(this.path, 'events.jsonl');
    this.#appends = this.#appends.then(() => append(path, line, { durable: false }));
    // Reported by `settle`; until then it must not count as unhandled.
    this.#appends.catch(() => undefined);
  }

  /** Waits until all events are written. @throws the first error that one of them met. */
  async settle(): Promise<void> {
    await this.#appends;
  }

  #journalOf(step: number): string {
    return join(this.path, journalFile(step));
  }

  #write(file: string, value: object): Promise<void> {
    return this.#writeWhole(file, [`${JSON.stringify(value, null, 2)}\n`]);
  }

  #writeWhole(file: string, pieces: Iterable<string>): Promise<void> {
    const path = join(this.path, file);
    return storing(path, () => writeWhole(path, pieces));
  }

  async #read<Schema extends z.ZodType>(file: string, schema: Schema): Promise<z.output<Schema> | undefined> {
    const text = await readIfThere(join(this.path, file));
    if (text === undefined) return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw refused(`${join(this.path, file)} is not JSON: ${String(cause)}`, { cause });
    }
    return this.#parse(file, schema, value);
  }

  #parse<Schema extends z.ZodType>(file: string, schema: Schema, value: unknown): z.output<Schema> {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const cause = parsed.error;
    throw refused(`${join(this.path, file)} cannot be read: ${cause.message}`, { cause });
  }
}

const journalFile = (step: number) => `trajectories/${stepName(step)}.journal.jsonl`;

const refused = (message: string, options?: ErrorOptions) => new RunError('resume_refused', message, options);

const makeOwnFolder = (path: string) => storing(path, () => makeFolder(path));

const append: typeof appendLine = (path, value, options) =>
  storing(path, () => appendLine(path, value, options));

const takeUp = (path: string, count?: number) =>
  storing(path, async () => {
    const lines: string[] = [];
    for await (const line of takeUpLines(path, count)) lines.push(line);
    return lines;
  });

/** One at a time, so that the event loop gets a turn between groups. */
function* groupLines(groups: Iterable<RolloutGroup>): Generator<string> {
  for (const group of groups) yield `${JSON.stringify(toGroupRecord(group))}\n`;
}
