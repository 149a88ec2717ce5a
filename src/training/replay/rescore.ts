import type { z } from 'zod';
import { checkMetrics, type Environment } from '../../environment/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  type Rollout,
  RolloutGroup,
  settleGroup,
  toFailure,
  toGroupRecord,
} from '../../rollout/index.ts';
import { runOutsideTrajectory } from '../../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { readRun } from './read-run.ts';
import { type ReplaySettings, replayGroup, whyNotReplayed } from './replay-group.ts';
import { type ReplayOptions, toReplaySettings } from './replay-step.ts';

export type RescoredGroups =
  | {
      runDirectory: string;
      /** A step, counted from 0, or the name of an evaluation. */
      step: number | string;
    }
  | { groups: Iterable<RolloutGroup | GroupRecord> | AsyncIterable<RolloutGroup | GroupRecord> };

export type RescoreOptions<Schema extends z.ZodType, Outcome> = ReplayOptions &
  RescoredGroups & {
    /** The environment with the new rewards. Scenarios and agent must be those of the record. */
    environment: Environment<Schema, Outcome>;
    /**
     * `outcome`: computes rewards from the recorded outcomes. `replay`: runs the rollout function again with recorded
     * replies, also for rollouts whose rewards failed. Default: `outcome` if outcomes are recorded and rewards need
     * nothing else, otherwise `replay`.
     */
    from?: 'outcome' | 'replay';
  };

const rescoreNames = {
  environment: true,
  from: true,
  runDirectory: true,
  step: true,
  groups: true,
  concurrency: true,
  timeoutMs: true,
  rewardTimeoutMs: true,
  signal: true,
} satisfies OptionNames<RescoreOptions<z.ZodType, unknown>>;

/** The old and new reward of one rollout; null if it has none. */
export interface RescoredRollout {
  group: number;
  rollout: number;
  attempt: number;
  from: 'outcome' | 'replay';
  before: number | null;
  after: number | null;
}

export interface Rescored {
  /** Groups with new rewards, metrics and credit. `toTrajectoryGroup()` prepares them for logging and training. */
  groups: RolloutGroup[];
  /** Old and new rewards of all rollouts in `groups`. */
  table: RescoredRollout[];
  /** Groups that cannot be scored again, with the reason. */
  refused: { group: number; reason: string }[];
}

/**
 * Scores stored trajectories with other rewards. Stored data does not change.
 * @throws RunError if the run has no such groups; the signal's reason.
 */
export async function rescore<Schema extends z.ZodType, Outcome>(
  options: RescoreOptions<Schema, Outcome>,
): Promise<Rescored> {
  checkOptionNames('rescore()', options, rescoreNames);
  const settings = toReplaySettings(options.environment, options);
  const rescored: Rescored = { groups: [], table: [], refused: [] };
  try {
    for await (const given of await groupsOf(options)) {
      // Copied, because rewards write to trajectories.
      const record: GroupRecord = structuredClone(
        given instanceof RolloutGroup ? JSON.parse(JSON.stringify(toGroupRecord(given))) : given,
      );
      takeCredit(record);
      const scored = await rescoreGroup(settings, record, options.from);
      if (typeof scored === 'string') rescored.refused.push({ group: record.group, reason: scored });
      else addGroup(rescored, record, scored);
    }
  } finally {
    await settings.executor.close();
  }
  return rescored;
}

type Scored = { group: RolloutGroup; from: 'outcome' | 'replay' };

function addGroup({ groups, table }: Rescored, record: GroupRecord, { group, from }: Scored): void {
  groups.push(group);
  for (const [at, rollout] of group.rollouts.entries()) {
    const before = record.rollouts[at];
    table.push({
      group: record.group,
      rollout: rollout.index,
      attempt: rollout.attempt,
      from,
      before: before?.status === 'completed' ? before.reward : null,
      after: rollout.status === 'completed' ? rollout.reward : null,
    });
  }
}

async function groupsOf(options: RescoredGroups): Promise<AsyncIterable<RolloutGroup | GroupRecord>> {
  if ('runDirectory' in options) return (await readRun(options.runDirectory)).groups(options.step);
  return toAsync(options.groups);
}

async function* toAsync<Value>(values: Iterable<Value> | AsyncIterable<Value>): AsyncGenerator<Value> {
  yield* values;
}

/** The group with new rewards, or why it cannot be scored. */
async function rescoreGroup(
  settings: ReplaySettings,
  record: GroupRecord,
  from: 'outcome' | 'replay' | undefined,
): Promise<Scored | string> {
  const withoutOutcome = from === 'replay' ? 'a replay was asked for' : whyNotScored(settings, record);
  if (withoutOutcome === undefined) return { from: 'outcome', group: await scoreOutcomes(settings, record) };
  if (from === 'outcome') return withoutOutcome;
  const withoutReplay = whyNotReplayed(record);
  if (withoutReplay !== undefined)
    return from === 'replay' ? withoutReplay : `${withoutOutcome}; and ${withoutReplay}`;
  const { group, rollouts } = await replayGroup(settings, record);
  for (const { recorded, replayed } of rollouts) {
    if (recorded.status !== 'completed' || !replayed) continue;
    if (replayed.mismatch)
      return `rollout ${recorded.index} does not run as it did: ${replayed.mismatch.message}`;
  }
  // A rollout that failed before and fails again keeps its recorded reason.
  const kept = rollouts.map(({ recorded, replayed }) =>
    replayed && (recorded.status === 'completed' || replayed.rollout.status === 'completed')
      ? replayed.rollout
      : recorded,
  );
  const { index, scenario, droppedBecause } = group;
  return { from: 'replay', group: new RolloutGroup({ index, scenario, rollouts: kept, droppedBecause }) };
}

/** Removes credit, which belongs to the old rewards. */
function takeCredit({ trajectories, failures }: GroupRecord): void {
  for (const trajectory of [...trajectories, ...failures.map((failure) => failure.trajectory)])
    for (const { messages_and_choices: entries } of [trajectory, ...(trajectory.additional_histories ?? [])])
      for (const entry of entries) if ('message' in entry) delete entry.credited_reward;
}

/** Why a group cannot be scored from its stored outcomes; undefined if it can. */
export function whyNotScored(
  { environment }: ReplaySettings,
  { scenario_lost: lost, rollouts, trajectories }: GroupRecord,
): string | undefined {
  if (lost !== undefined) return `its scenario did not survive being written: ${lost}`;
  if (environment.hasSetup) return 'rewards see the state of the rollout, which is not on record';
  if (trajectories.some(({ record }) => record.calls.some(({ reward }) => reward !== undefined)))
    return 'step rewards were given, by the rollout or by its rewards';
  for (const rollout of rollouts)
    if (rollout.status === 'completed' && rollout.outcome_missing !== undefined)
      return `the outcome of rollout ${rollout.index} did not survive being written: ${rollout.outcome_missing}`;
  return undefined;
}

/** Scores the completed rollouts of a group from their stored outcomes. Other rollouts stay unchanged. */
export async function scoreOutcomes(settings: ReplaySettings, record: GroupRecord): Promise<RolloutGroup> {
  const { environment, rewardTimeoutMs, signal } = settings;
  const { scenario } = record;
  const recorded = fromGroupRecord(record);
  const scored = await Promise.all(
    recorded.rollouts.map((rollout) => runOutsideTrajectory(() => scoreRollout(settings, scenario, rollout))),
  );
  signal?.throwIfAborted();
  const rollouts = await settleGroup({
    environment,
    scenario,
    rollouts: scored,
    timeoutMs: rewardTimeoutMs,
    signal,
  });
  return new RolloutGroup({
    index: record.group,
    scenario,
    rollouts,
    droppedBecause: recorded.droppedBecause,
  });
}

async function scoreRollout(
  { environment, rewardTimeoutMs, signal = new AbortController().signal }: ReplaySettings,
  scenario: unknown,
  rollout: Rollout,
): Promise<Rollout> {
  if (rollout.status !== 'completed') return rollout;
  const { trajectory, seed, outcome } = rollout;
  for (const name of environment.rewardNames) delete trajectory.metrics[name];
  try {
    const opened = await environment.open({ scenario, seed, signal });
    const reward = await opened.score(outcome, { trajectory, signal, timeoutMs: rewardTimeoutMs });
    checkMetrics(trajectory.metrics);
    trajectory.reward = reward;
    return { ...rollout, reward };
  } catch (error) {
    trajectory.reward = null;
    const { index, attempt, durationMs } = rollout;
    return {
      ...{ index, attempt, seed, durationMs, trajectory },
      status: 'failed',
      failure: toFailure(error),
    };
  }
}
