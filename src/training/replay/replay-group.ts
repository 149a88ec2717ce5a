import { withoutStep } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { ModelHandle } from '../../model/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  inProcess,
  type Rollout,
  type RolloutExecutor,
  type RolloutGroup,
  rolloutDefaults,
  settleGroup,
} from '../../rollout/index.ts';
import type { OptionNames } from '../../util/option-names.ts';
import type { RunError } from '../../util/run-error.ts';
import { RecordedReplies } from './recorded-replies.ts';

export interface ReplayOptions {
  /** Rollouts in flight at a time. Default 64. */
  concurrency?: number;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number;
  /** Deadline of each reward, in milliseconds. Default: the rollout's. */
  rewardTimeoutMs?: number;
  signal?: AbortSignal;
}

export const replayNames = {
  concurrency: true,
  timeoutMs: 'numeric',
  rewardTimeoutMs: 'numeric',
  signal: 'signal',
} satisfies OptionNames<ReplayOptions>;

export interface ReplaySettings {
  environment: Environment;
  executor: RolloutExecutor;
  timeoutMs: number;
  rewardTimeoutMs: number;
  onUnexpectedCall: 'error' | 'warn';
  signal: AbortSignal | undefined;
}

/**
 * Calls `work` with each group, one at a time. Returns the groups for which it returned a reason, which says why the
 * group cannot be replayed or scored.
 */
export async function forEachGroup(
  groups: AsyncIterable<GroupRecord>,
  environment: Environment,
  {
    concurrency = 64,
    timeoutMs = rolloutDefaults.timeoutMs,
    rewardTimeoutMs = timeoutMs,
    onUnexpectedCall,
    signal,
  }: ReplayOptions & { onUnexpectedCall?: unknown },
  work: (settings: ReplaySettings, record: GroupRecord) => Promise<string | undefined>,
): Promise<{ group: number; reason: string }[]> {
  const executor = inProcess({ concurrency });
  const settings: ReplaySettings = {
    environment,
    executor,
    timeoutMs,
    rewardTimeoutMs,
    onUnexpectedCall: onUnexpectedCall === 'warn' ? 'warn' : 'error',
    signal,
  };
  const refused: { group: number; reason: string }[] = [];
  try {
    for await (const record of groups) {
      const reason = await work(settings, record);
      if (reason !== undefined) refused.push({ group: record.group, reason });
    }
  } finally {
    await executor.close();
  }
  return refused;
}

interface ReplayedGroup {
  group: RolloutGroup;
  /** In the order of the group's rollouts: the recorded one and its replay. */
  rollouts: { recorded: Rollout; replayed: ReplayedRollout | null }[];
}

/** Why a group cannot be replayed; undefined if it can. */
export function whyNotReplayed({
  scenario_lost: lost,
  trajectories,
  failures,
  seat,
}: GroupRecord): string | undefined {
  if (seat) return 'its environment has seats, whose replies are recorded apart from each other';
  if (lost !== undefined) return `JSON cannot store its scenario: ${lost}`;
  const all = [...trajectories, ...failures.map(({ trajectory }) => trajectory)];
  const name = all.find(({ record }) => record.externalModel !== undefined)?.record.externalModel;
  return name === undefined
    ? undefined
    : `the external model "${name}" answered, whose calls are not recorded as choices`;
}

/** Runs the rollouts of a group again, with rewards and group rewards. Cancelled rollouts stay unchanged. */
export async function replayGroup(settings: ReplaySettings, record: GroupRecord): Promise<ReplayedGroup> {
  const { environment, rewardTimeoutMs: timeoutMs, signal } = settings;
  const { scenario } = record;
  const recordedGroup = fromGroupRecord(record);
  const replays = await Promise.all(
    recordedGroup.rollouts.map(async (recorded) => ({
      recorded,
      replayed: recorded.status === 'cancelled' ? null : await replayRollout(settings, record, recorded),
    })),
  );
  signal?.throwIfAborted();
  const rollouts = replays.map(({ recorded, replayed }) => replayed?.rollout ?? recorded);
  const settled = await settleGroup({ environment, scenario, rollouts, timeoutMs, signal });
  return {
    group: recordedGroup.withRollouts(settled),
    rollouts: replays.map(({ recorded, replayed }, at) => ({
      recorded,
      replayed: replayed && { ...replayed, rollout: settled[at] ?? replayed.rollout },
    })),
  };
}

export interface ReplayedRollout {
  rollout: Rollout;
  /** The error of the first call that is not in the record. */
  mismatch: RunError | undefined;
  /** Number of recorded calls that were not repeated. */
  left: number;
}

/** Runs a rollout and its rewards again. Model calls are answered from its record. */
async function replayRollout(
  { executor, ...settings }: ReplaySettings,
  { scenario, group }: GroupRecord,
  { index, attempt, seed, trajectory }: Rollout,
): Promise<ReplayedRollout> {
  const replies = new RecordedReplies(trajectory);
  // The pinned name. If the rollout was not pinned, the name of the model without a step.
  const name = trajectory.policy ?? withoutStep(trajectory.log.calls[0]?.model ?? 'replayed');
  const model = new ModelHandle({ name, completions: replies });
  const rollout = await executor.run({ ...settings, scenario, model, group, index, attempt, seed });
  return { rollout, mismatch: replies.mismatch, left: replies.left };
}
