import type { z } from 'zod';
import type { Environment } from '../../environment/index.ts';
import { differences, quoted } from '../../model/index.ts';
import { type GroupRecord, inProcess, type Rollout, type RolloutGroup } from '../../rollout/index.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { RunError } from '../../util/run-error.ts';
import { readRun } from './read-run.ts';
import { type ReplayedRollout, type ReplaySettings, replayGroup, whyNotReplayed } from './replay-group.ts';

export interface ReplayOptions {
  /** Rollouts in flight at a time. Default 64. */
  concurrency?: number;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number;
  /** Deadline of each reward, in milliseconds. Default: that of the rollout. */
  rewardTimeoutMs?: number;
  signal?: AbortSignal;
}

export interface ReplayStepOptions<Schema extends z.ZodType, Outcome> extends ReplayOptions {
  runDirectory: string;
  /** A step, counted from 0, or the name of an evaluation. */
  step: number | string;
  /** The environment of the run. */
  environment: Environment<Schema, Outcome>;
}

const replayStepNames = {
  runDirectory: true,
  step: true,
  environment: true,
  concurrency: true,
  timeoutMs: true,
  rewardTimeoutMs: true,
  signal: true,
} satisfies OptionNames<ReplayStepOptions<z.ZodType, unknown>>;

/** A difference between a replayed rollout and its record. */
export interface ReplayDifference {
  group: number;
  rollout: number;
  attempt: number;
  what: string;
}

export interface ReplayedStep {
  /** In the order of the record, without the groups in `refused`. */
  groups: RolloutGroup[];
  /** Empty if the environment and its rewards are deterministic. */
  differences: ReplayDifference[];
  refused: { group: number; reason: string }[];
}

/**
 * Runs the rollouts of a step again and answers model calls from the record, so no model is needed. If the environment
 * and its rewards are deterministic, rewards, metrics and bodies are the same; `differences` lists what is not. Nothing
 * on disk changes.
 *
 * @throws RunError if the run has no such step or another environment; the signal's reason.
 */
export async function replayStep<Schema extends z.ZodType, Outcome>(
  given: ReplayStepOptions<Schema, Outcome>,
): Promise<ReplayedStep> {
  checkOptionNames('replayStep()', given, replayStepNames);
  const { runDirectory, step, environment, ...options } = given;
  const run = await readRun(runDirectory);
  const config = await run.config();
  if (config && config.environment !== environment.name)
    throw new RunError(
      'invalid_run_record',
      `The run ${run.path} is of the environment "${config.environment}", not of "${environment.name}".`,
    );
  const settings = toReplaySettings(environment, options, config?.onUnexpectedCall);
  const result: ReplayedStep = { groups: [], differences: [], refused: [] };
  try {
    for await (const record of run.groups(step)) await addGroup(result, settings, record);
  } finally {
    await settings.executor.close();
  }
  return result;
}

async function addGroup(result: ReplayedStep, settings: ReplaySettings, record: GroupRecord): Promise<void> {
  const reason = whyNotReplayed(record);
  if (reason !== undefined) {
    result.refused.push({ group: record.group, reason });
    return;
  }
  const { group, rollouts } = await replayGroup(settings, record);
  result.groups.push(group);
  for (const { recorded, replayed } of rollouts) {
    const { index, attempt } = recorded;
    for (const what of replayed ? compareRollouts(recorded, replayed) : [])
      result.differences.push({ group: record.group, rollout: index, attempt, what });
  }
}

/** Applies the defaults. The caller must close the executor. */
export function toReplaySettings(
  environment: Environment,
  { concurrency = 64, timeoutMs = 600_000, rewardTimeoutMs = timeoutMs, signal }: ReplayOptions,
  onUnexpectedCall: unknown = 'error',
): ReplaySettings {
  return {
    environment,
    executor: inProcess({ concurrency }),
    timeoutMs,
    rewardTimeoutMs,
    onUnexpectedCall: onUnexpectedCall === 'warn' ? 'warn' : 'error',
    signal,
  };
}

/** Maximum number of listed differences per rollout. */
const listed = 5;

/** Describes the differences between a replayed rollout and its record. */
export function compareRollouts(recorded: Rollout, { rollout, mismatch, left }: ReplayedRollout): string[] {
  // What interrupted a rollout is not recorded, so two failed rollouts count as equal if all recorded calls were made.
  if (recorded.status === 'failed' && rollout.status === 'failed' && left === 0) return [];
  const found = differences(shown(recorded), shown(rollout), '').map(
    ({ path, a, b }) => `${path} was ${quoted(a, 120)} and is ${quoted(b, 120)}`,
  );
  const all = [
    ...(mismatch ? [mismatch.message] : []),
    ...(left > 0 ? [`${left} recorded calls were not made`] : []),
    ...found,
  ];
  return all.length <= listed ? all : [...all.slice(0, listed), `and ${all.length - listed} more`];
}

/** The parts of a rollout that a replay must reproduce: not its start time and duration. */
function shown(rollout: Rollout): object {
  const { start_time: _, ...record } = rollout.trajectory.toRecord();
  const plain: object = JSON.parse(JSON.stringify(record));
  return rollout.status === 'completed'
    ? { status: rollout.status, reward: rollout.reward, ...plain }
    : { status: rollout.status, failure: rollout.failure.code, ...plain };
}
