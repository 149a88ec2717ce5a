import { access, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { RunEvent, StepReport } from '../../progress/index.ts';
import { type GroupRecord, requireGroupRecord } from '../../rollout/index.ts';
import { readIfExists } from '../../util/durable-files.ts';
import { hasCode } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { readJsonLines } from '../../util/json-lines.ts';
import { checkArgument } from '../../util/option-names.ts';
import { RunError } from '../../util/run-error.ts';
import { stepName } from '../run-files.ts';
import { type RunConfig, runConfigSchema } from '../run-origin.ts';
import { addedFigures } from '../run-state.ts';

/** A validation, as read from a run's events. */
export interface RunEvaluation
  extends Pick<
    Extract<RunEvent, { type: 'evaluated' }>,
    'name' | 'policy' | 'score' | 'intervals' | 'scenarios'
  > {
  /** Number of finished steps before it. */
  step: number;
}

/** Reads a run directory. Each call reads its files again. */
export interface RunReader {
  /** Absolute path. */
  readonly path: string;
  /** Options of the run; null if it ended before its model was open. */
  config(): Promise<RunConfig | null>;
  /** How the run ended; null while it is in progress, or if it was killed. */
  summary(): Promise<Record<string, unknown> | null>;
  /** One for each step, in order. If a step ran twice, the later one. */
  reports(): Promise<StepReport[]>;
  evaluations(): Promise<RunEvaluation[]>;
  /** Its events with their times (ISO 8601), in order, without the progress of single rollouts. */
  events(): AsyncGenerator<RunEvent & { time: string }, undefined>;
  /**
   * Names that `groups` accepts: steps (`step-0000`) and evaluations (`before`, `after`), sorted. Includes unfinished
   * steps, with the groups that have ended.
   */
  groupNames(): Promise<string[]>;
  /**
   * The groups of a step (counted from 0) or of an evaluation (by name), read one at a time. `fromGroupRecord` converts
   * each to a RolloutGroup. @throws RunError if there are none, TrajectoryError for an invalid line.
   */
  groups(which: number | string): AsyncGenerator<GroupRecord, undefined>;
}

/**
 * Opens the directory of a run, finished or in progress.
 *
 *     const run = await readRun('runs/2026-11-21-desk');
 *     for await (const group of run.groups(3)) console.log(group.trajectories.map(({ reward }) => reward));
 *
 * @throws OptionError for what is no path; RunError if there is no such directory.
 */
export async function readRun(runDirectory: string): Promise<RunReader> {
  checkArgument('runDirectory', runDirectory, 'path');
  const path = resolve(runDirectory);
  await access(path).catch((cause) => {
    throw new RunError('invalid_run_record', `There is no run directory ${path}.`, { cause });
  });
  return {
    path,
    config: () => readConfig(join(path, 'config.json')),
    summary: () => readObject(join(path, 'summary.json')),
    reports: () => readReports(join(path, 'metrics.jsonl')),
    evaluations: () => readEvaluations(join(path, 'events.jsonl')),
    events: () => readEvents(join(path, 'events.jsonl')),
    groupNames: async () => [...(await groupFiles(path)).keys()].sort(),
    groups: (which) => readGroups(path, typeof which === 'number' ? stepName(which) : which),
  };
}

async function readObject(file: string): Promise<Record<string, unknown> | null> {
  const text = await readIfExists(file);
  if (text === undefined) return null;
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new RunError('invalid_run_record', `${file} holds no object.`);
  return value;
}

/** @throws RunError for an invalid field. */
async function readConfig(file: string): Promise<RunConfig | null> {
  const parsed = runConfigSchema.nullable().safeParse(await readObject(file));
  if (parsed.success) return parsed.data;
  throw new RunError('invalid_run_record', `${file} cannot be read: ${parsed.error.message}`, {
    cause: parsed.error,
  });
}

async function readReports(file: string): Promise<StepReport[]> {
  const reports = new Map<number, StepReport>();
  for await (const value of readValues(file)) {
    if (!isReport(value))
      throw new RunError('invalid_run_record', `${file} has a line that is no report of a step.`);
    reports.set(value.step, { ...addedFigures, ...value });
  }
  return [...reports.values()].sort((a, b) => a.step - b.step);
}

async function readEvaluations(file: string): Promise<RunEvaluation[]> {
  const evaluations = new Map<string, RunEvaluation>();
  let step = 0;
  for await (const event of readValues(file)) {
    if (isReport(event)) step = event.step + 1;
    if (!isEvaluated(event)) continue;
    const { name, policy, score, intervals, scenarios } = event;
    evaluations.set(name, { name, policy, score, scenarios, step, ...(intervals ? { intervals } : {}) });
  }
  return [...evaluations.values()].sort((a, b) => a.step - b.step);
}

async function* readEvents(file: string): AsyncGenerator<RunEvent & { time: string }, undefined> {
  for await (const event of readValues(file)) {
    if (!isEvent(event))
      throw new RunError('invalid_run_record', `${file} has a line that is no event of a run.`);
    yield event;
  }
}

const isEvent = (value: unknown): value is RunEvent & { time: string } =>
  isObject(value) && typeof value.type === 'string' && typeof value.time === 'string';

/** Suffix of the journal of an unfinished step: its groups, in the order in which they ended. */
const journalEnd = '.journal.jsonl';
const wholeEnd = '.jsonl';

/** The files of a run's groups by their names (see `RunReader.groupNames`): of an unfinished step, its journal. */
export async function groupFiles(path: string): Promise<Map<string, string>> {
  const folder = join(path, 'trajectories');
  const files = await readdir(folder).catch((error) => {
    if (hasCode(error, 'ENOENT')) return [];
    throw error;
  });
  const named = (end: string) =>
    files
      .filter((file) => file.endsWith(end))
      .map((file) => [file.slice(0, -end.length), join(folder, file)] as const);
  const whole = named(wholeEnd).filter(([name]) => !`${name}${wholeEnd}`.endsWith(journalEnd));
  return new Map([...named(journalEnd), ...whole]);
}

async function* readGroups(path: string, name: string): AsyncGenerator<GroupRecord, undefined> {
  const files = await groupFiles(path);
  const file = files.get(name);
  if (file === undefined)
    throw new RunError(
      'invalid_run_record',
      `The run ${path} has no groups of "${name}". It has: ${[...files.keys()].sort().join(', ') || 'none'}.`,
    );
  for await (const value of readValues(file)) yield requireGroupRecord(value);
}

/** True also for the event of a step, which contains its report. */
function isReport(value: unknown): value is StepReport {
  return (
    isObject(value) &&
    typeof value.step === 'number' &&
    typeof value.steps === 'number' &&
    typeof value.dispatched === 'number'
  );
}

function isEvaluated(value: unknown): value is Extract<RunEvent, { type: 'evaluated' }> {
  return isObject(value) && value.type === 'evaluated' && isObject(value.score);
}

/** The values of a JSON lines file; none if the file does not exist. */
async function* readValues(file: string): AsyncGenerator<unknown, undefined> {
  const notJson = (line: number, cause: unknown) =>
    new RunError('invalid_run_record', `Line ${line} of ${file} is not JSON.`, { cause });
  try {
    for await (const { value } of readJsonLines(file, notJson)) yield value;
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}
