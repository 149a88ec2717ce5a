import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { storing } from '../evaluation/index.ts';
import type { RunEvent, StepReport } from '../progress/index.ts';
import { fromGroupRecord, parseGroupRecord, type RolloutGroup, toGroupRecord } from '../rollout/index.ts';
import { makeFolder } from '../util/durable-files.ts';
import { RunError } from '../util/run-error.ts';
import { runOptionError } from './errors.ts';
import {
  appendLine,
  isRun,
  jobFile,
  lockRun,
  loggingFile,
  type RunLock,
  readIfThere,
  removeFile,
  stepName,
  takeUpLines,
  warmStartFile,
  writeWhole,
} from './run-files.ts';
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
 * Whole files appear under their name only when complete; lines are appended.
 */
export class RunDirectory {
  readonly path: string;
  /** Appends in order, one at a time; the first failure is kept for `settle`. */
  #appends: Promise<void> = Promise.resolve();
  #journal: Promise<void> = Promise.resolve();
  readonly #lock: RunLock;

  private constructor(path: string, lock: RunLock) {
    this.path = path;
    this.#lock = lock;
  }

  /** @throws OptionError where the folder exists and is not empty, RunError where another has just begun. */
  static async create(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    await makeOwnFolder(absolute);
    if ((await readdir(absolute)).length > 0) {
      throw runOptionError(
        'runDirectory',
        `The run directory ${absolute} is not empty. Choose another, move it away, or go on with the run in it: ` +
          '`resume: true`.',
      );
    }
    return RunDirectory.#open(absolute);
  }

  /** The run in the folder where there is one, else a new one. @throws OptionError where it holds something else. */
  static async open(path: string): Promise<RunDirectory> {
    const names = await readdir(path).catch(() => []);
    return names.length > 0 && isRun(names) ? RunDirectory.resume(path) : RunDirectory.create(path);
  }

  /** @throws RunError where the folder does not hold a run, RunError where it still goes on. */
  static async resume(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    const names = await readdir(absolute).catch(() => undefined);
    if (!names)
      throw new RunError(
        'resume_refused',
        `There is no run directory ${absolute} to go on from. Leave \`resume\` out.`,
      );
    if (!isRun(names))
      throw new RunError(
        'resume_refused',
        `${absolute} has no config.json: it is not the directory of a run.`,
      );
    return RunDirectory.#open(absolute);
  }

  static async #open(absolute: string): Promise<RunDirectory> {
    const lock = lockRun(absolute);
    try {
      await makeOwnFolder(join(absolute, 'trajectories'));
      await makeOwnFolder(join(absolute, 'jobs'));
    } catch (error) {
      lock.release();
      throw error;
    }
    return new RunDirectory(absolute, lock);
  }

  /** Lets others go on with the run. Harmless when repeated. */
  release(): void {
    this.#lock.release();
  }

  async writeConfig(config: object): Promise<void> {
    await this.#write('config.json', config);
  }

  /** Undefined where there is none. */
  readConfig(): Promise<Record<string, unknown> | undefined> {
    return this.#read('config.json', (value) =>
      this.#parse('config.json', z.record(z.string(), z.unknown()), value),
    );
  }

  async writeState(state: RunState): Promise<void> {
    await this.#write('state.json', state);
  }

  readState(): Promise<RunState | undefined> {
    return this.#read('state.json', (value) => this.#parse('state.json', runStateSchema, value));
  }

  async writeSummary(summary: object): Promise<void> {
    await this.#write('summary.json', summary);
  }

  async writeJob(job: JobRecord): Promise<void> {
    await this.#write(jobFile(job.step), job);
  }

  readJob(step: number): Promise<JobRecord | undefined> {
    return this.#read(jobFile(step), (value) => this.#parse(jobFile(step), jobRecordSchema, value));
  }

  async writeWarmStart(record: WarmStartRecord): Promise<void> {
    await this.#write(warmStartFile, record);
  }

  readWarmStart(): Promise<WarmStartRecord | undefined> {
    return this.#read(warmStartFile, (value) => this.#parse(warmStartFile, warmStartRecordSchema, value));
  }

  async writeLogging(name: string, state: LoggingState): Promise<void> {
    await this.#write(loggingFile(name), { state });
  }

  async readLogging(name: string): Promise<LoggingState | undefined> {
    const file = loggingFile(name);
    return (await this.#read(file, (value) => this.#parse(file, loggingSchema, value)))?.state;
  }

  /** Durable when it returns. Gives the file's path relative to the run directory. */
  async writeTrajectories(name: string, groups: readonly RolloutGroup[]): Promise<string> {
    const file = `trajectories/${name}.jsonl`;
    await writeWhole(join(this.path, file), groupLines(groups));
    return file;
  }

  /** Keeps a group of a step that goes on. Durable when it returns. */
  async keepGroup(step: number, group: RolloutGroup): Promise<void> {
    const path = this.#journalOf(step);
    const record = toGroupRecord(group);
    // After a failure no more: behind a part of a line, the next one could not be read.
    this.#journal = this.#journal.then(() => appendLine(path, record, { durable: true }));
    this.#journal.catch(() => undefined);
    await this.#journal;
  }

  /** Groups of a step that were kept before the run was interrupted, by their index. */
  async keptGroups(step: number): Promise<Map<number, RolloutGroup>> {
    const lines = await takeUpLines(this.#journalOf(step));
    const groups = lines.map((line) => fromGroupRecord(parseGroupRecord(line)));
    return new Map(groups.map((group) => [group.index, group]));
  }

  /** Of what was kept of a step, only these stay. Durable when it returns. */
  async keepOnly(step: number, groups: Iterable<RolloutGroup>): Promise<void> {
    await writeWhole(this.#journalOf(step), groupLines(groups));
  }

  /** Of a step that is finished: its groups are in its own file. */
  dropKeptGroups(step: number): Promise<void> {
    return removeFile(this.#journalOf(step));
  }

  /** Where a validation is kept while it goes on. */
  evaluationFolder(finishedSteps: number): string {
    return join(this.path, 'evaluations', stepName(finishedSteps));
  }

  /** Durable when it returns. */
  async appendMetrics(report: StepReport): Promise<void> {
    await appendLine(join(this.path, 'metrics.jsonl'), report, { durable: true });
  }

  /** The first `count` reports; what an interrupted step has left behind them is cut off. */
  async takeUpMetrics(count: number): Promise<StepReport[]> {
    const lines = await takeUpLines(join(this.path, 'metrics.jsonl'), count);
    if (lines.length < count)
      throw new RunError(
        'resume_refused',
        `${join(this.path, 'metrics.jsonl')} has ${lines.length} lines, and ${count} steps were finished.`,
      );
    return lines.map((line) => this.#parse('metrics.jsonl', stepReportSchema, JSON.parse(line)));
  }

  async takeUpEvents(): Promise<void> {
    await takeUpLines(join(this.path, 'events.jsonl'));
  }

  appendEvent(event: RunEvent): void {
    // The finished steps' reports stand in the file beside it.
    const line = { time: new Date().toISOString(), ...event, finishedReports: undefined };
    this.#appends = this.#appends.then(() =>
      appendLine(join(this.path, 'events.jsonl'), line, { durable: false }),
    );
    // Reported by `settle`; until then it must not count as unhandled.
    this.#appends.catch(() => undefined);
  }

  /** Waits until all that was appended is written. @throws the first error that an append met. */
  async settle(): Promise<void> {
    await this.#appends;
  }

  #journalOf(step: number): string {
    return join(this.path, 'trajectories', `${stepName(step)}.journal.jsonl`);
  }

  async #write(file: string, value: object): Promise<void> {
    await writeWhole(join(this.path, file), [`${JSON.stringify(value, null, 2)}\n`]);
  }

  async #read<Value>(file: string, parse: (value: unknown) => Value): Promise<Value | undefined> {
    const text = await readIfThere(join(this.path, file));
    if (text === undefined) return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new RunError('resume_refused', `${join(this.path, file)} is not JSON: ${String(cause)}`, {
        cause,
      });
    }
    return parse(value);
  }

  #parse<Schema extends z.ZodType>(file: string, schema: Schema, value: unknown): z.output<Schema> {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    throw new RunError('resume_refused', `${join(this.path, file)} cannot be read: ${parsed.error.message}`, {
      cause: parsed.error,
    });
  }
}

const makeOwnFolder = (path: string) => storing(path, () => makeFolder(path));

/** One at a time, so that the event loop gets a turn between groups. */
function* groupLines(groups: Iterable<RolloutGroup>): Generator<string> {
  for (const group of groups) yield `${JSON.stringify(toGroupRecord(group))}\n`;
}
