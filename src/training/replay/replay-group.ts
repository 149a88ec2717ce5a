import {
  fromGroupRecord,
  type GroupRecord,
  type Rollout,
  RolloutGroup,
  settleGroup,
} from '../../rollout/index.ts';
import { type ReplayedRollout, type ReplaySettings, replayRollout } from './replay-rollout.ts';

export interface ReplayedGroup {
  group: RolloutGroup;
  /** In the order of the group's rollouts: the recorded one, and what it is when it runs again. */
  rollouts: { recorded: Rollout; replayed: ReplayedRollout | null }[];
}

/** Why a group cannot be run again; undefined where it can. */
export function whyNotReplayed({
  scenario_lost: lost,
  trajectories,
  failures,
}: GroupRecord): string | undefined {
  if (lost !== undefined) return `its scenario did not survive being written: ${lost}`;
  const all = [...trajectories, ...failures.map(({ trajectory }) => trajectory)];
  const name = all.find(({ record }) => record.externalModel !== undefined)?.record.externalModel;
  return name === undefined
    ? undefined
    : `the external model "${name}" answered, whose calls are not on record as choices`;
}

/** Runs the rollouts of a group again, rewards and group rewards too. Cancelled ones stay as they were. */
export async function replayGroup(settings: ReplaySettings, record: GroupRecord): Promise<ReplayedGroup> {
  const { environment, rewardTimeoutMs, signal } = settings;
  const { group, scenario } = record;
  const recorded = fromGroupRecord(record);
  const rollouts = await Promise.all(
    recorded.rollouts.map(async (rollout) => ({
      recorded: rollout,
      replayed:
        rollout.status === 'cancelled'
          ? null
          : await replayRollout(settings, { scenario, group, recorded: rollout }),
    })),
  );
  signal?.throwIfAborted();
  const settled = await settleGroup({
    environment,
    scenario,
    rollouts: rollouts.map(({ recorded, replayed }) => replayed?.rollout ?? recorded),
    timeoutMs: rewardTimeoutMs,
    signal,
  });
  return {
    group: new RolloutGroup({
      index: group,
      scenario,
      rollouts: settled,
      droppedBecause: recorded.droppedBecause,
    }),
    rollouts: rollouts.map(({ recorded, replayed }, at) => ({
      recorded,
      replayed: replayed && { ...replayed, rollout: settled[at] ?? replayed.rollout },
    })),
  };
}
