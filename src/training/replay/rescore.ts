import type { z } from 'zod';
import { checkTrajectory, type Environment } from '../../environment/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  type Rollout,
  RolloutGroup,
  settleGroup,
  toFailure,
  toGroupRecord,
  withoutReward,
} from '../../rollout/index.ts';
import { runOutsideTrajectory } from '../../trajectory/index.ts';
import { type OptionNames, requireOptions } from '../../util/option-names.ts';
import { readRun } from './read-run.ts';
import {
  forEachGroup,
  type ReplayOptions,
  type ReplaySettings,
  replayGroup,
  replayNames,
  whyNotReplayed,
} from './replay-group.ts';

export type RescoredGroups =
  | {
      runDirectory: string;
      /** A step, counted from 0, or the name of an evaluation. */
      step: number | string;
    }
  | { groups: Iterable<RolloutGroup | GroupRecord> | AsyncIterable<RolloutGroup | GroupRecord> };

export type RescoreOptions<Schema extends z.ZodType, Outcome> = ReplayOptions &
  RescoredGroups & {
    /** The environment with the new rewards. Scenarios and agent must be as recorded. */
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
  from: ['outcome', 'replay'],
  runDirectory: 'path',
  step: true,
  groups: true,
  ...replayNames,
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
  requireOptions('rescore()', options, rescoreNames, ['environment']);
  const groups: RolloutGroup[] = [];
  const table: RescoredRollout[] = [];
  const records = recordsOf(options);
  const refused = await forEachGroup(records, options.environment, options, async (settings, record) => {
    const scored = await rescoreGroup(settings, record, options.from);
    if (typeof scored === 'string') return scored;
    groups.push(scored.group);
    for (const [at, rollout] of scored.group.rollouts.entries()) {
      const before = record.rollouts[at];
      table.push({
        group: record.group,
        rollout: rollout.index,
        attempt: rollout.attempt,
        from: scored.from,
        before: before?.status === 'completed' ? before.reward : null,
        after: rollout.status === 'completed' ? rollout.reward : null,
      });
    }
    return undefined;
  });
  return { groups, table, refused };
}

/** Copies of the records, because rewards write to trajectories, without credit, which belongs to the old rewards. */
async function* recordsOf(options: RescoredGroups): AsyncGenerator<GroupRecord> {
  const source =
    'runDirectory' in options ? (await readRun(options.runDirectory)).groups(options.step) : options.groups;
  for await (const group of source) {
    const record: GroupRecord =
      group instanceof RolloutGroup
        ? JSON.parse(JSON.stringify(toGroupRecord(group)))
        : structuredClone(group);
    const { trajectories, failures } = record;
    for (const trajectory of [...trajectories, ...failures.map((failure) => failure.trajectory)])
      for (const { messages_and_choices: entries } of [
        trajectory,
        ...(trajectory.additional_histories ?? []),
      ])
        for (const entry of entries) if ('message' in entry) delete entry.credited_reward;
    yield record;
  }
}

type Scored = { group: RolloutGroup; from: 'outcome' | 'replay' };

/** The group with new rewards, or why it cannot be scored. */
async function rescoreGroup(
  settings: ReplaySettings,
  record: GroupRecord,
  from: 'outcome' | 'replay' | undefined,
): Promise<Scored | string> {
  const withoutOutcome = from === 'replay' ? 'a replay was requested' : whyNotScored(settings, record);
  if (withoutOutcome === undefined) return { from: 'outcome', group: await scoreOutcomes(settings, record) };
  if (from === 'outcome') return withoutOutcome;
  const withoutReplay = whyNotReplayed(record);
  if (withoutReplay !== undefined)
    return from === 'replay' ? withoutReplay : `${withoutOutcome}; and ${withoutReplay}`;
  const { group, rollouts } = await replayGroup(settings, record);
  for (const { recorded, replayed } of rollouts) {
    if (recorded.status !== 'completed' || !replayed) continue;
    if (replayed.mismatch)
      return `rollout ${recorded.index} does not replay identically: ${replayed.mismatch.message}`;
  }
  // A rollout that failed before and fails again keeps its recorded reason.
  const kept = rollouts.map(({ recorded, replayed }) =>
    replayed && (recorded.status === 'completed' || replayed.rollout.status === 'completed')
      ? replayed.rollout
      : recorded,
  );
  return { from: 'replay', group: group.withRollouts(kept) };
}

/** Why a group cannot be scored from its stored outcomes; undefined if it can. */
function whyNotScored(
  { environment }: ReplaySettings,
  { scenario_lost: lost, rollouts, trajectories }: GroupRecord,
): string | undefined {
  if (lost !== undefined) return `JSON cannot store its scenario: ${lost}`;
  if (environment.hasSetup) return 'rewards use the state of the rollout, which is not recorded';
  if (trajectories.some(({ record }) => record.calls.some(({ reward }) => reward !== undefined)))
    return 'calls have step rewards, from the rollout or from its rewards';
  for (const rollout of rollouts)
    if (rollout.status === 'completed' && rollout.outcome_missing !== undefined)
      return `JSON cannot store the outcome of rollout ${rollout.index}: ${rollout.outcome_missing}`;
  return undefined;
}

/** Scores the completed rollouts of a group from their stored outcomes. Other rollouts stay unchanged. */
async function scoreOutcomes(settings: ReplaySettings, record: GroupRecord): Promise<RolloutGroup> {
  const { environment, rewardTimeoutMs: timeoutMs, signal } = settings;
  const { scenario } = record;
  const group = fromGroupRecord(record);
  const seat = group.seat?.name;
  const rollouts = await Promise.all(
    group.rollouts.map((rollout) =>
      runOutsideTrajectory(() => scoreRollout(settings, { scenario, seat }, rollout)),
    ),
  );
  signal?.throwIfAborted();
  return group.withRollouts(await settleGroup({ environment, scenario, seat, rollouts, timeoutMs, signal }));
}

async function scoreRollout(
  { environment, rewardTimeoutMs, signal = new AbortController().signal }: ReplaySettings,
  { scenario, seat }: { scenario: unknown; seat: string | undefined },
  rollout: Rollout,
): Promise<Rollout> {
  if (rollout.status !== 'completed') return rollout;
  const { trajectory, seed, outcome } = rollout;
  for (const name of environment.rewardNames) delete trajectory.metrics[name];
  try {
    const opened = await environment.open({ scenario, seed, signal });
    const reward = await opened.score(outcome, { trajectory, seat, signal, timeoutMs: rewardTimeoutMs });
    checkTrajectory(trajectory);
    trajectory.reward = reward;
    return { ...rollout, reward };
  } catch (error) {
    return withoutReward(rollout, { status: 'failed', failure: toFailure(error) });
  }
}
