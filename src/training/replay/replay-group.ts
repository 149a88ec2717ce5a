import { parseModelName } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { ModelHandle } from '../../model/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  type Rollout,
  type RolloutExecutor,
  RolloutGroup,
  settleGroup,
} from '../../rollout/index.ts';
import type { Trajectory } from '../../trajectory/index.ts';
import type { RunError } from '../../util/run-error.ts';
import { RecordedReplies } from './recorded-replies.ts';

export interface ReplayedGroup {
  group: RolloutGroup;
  /** In the order of the group's rollouts: the recorded one and its replay. */
  rollouts: { recorded: Rollout; replayed: ReplayedRollout | null }[];
}

/** Why a group cannot be replayed; undefined if it can. */
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

/** Runs the rollouts of a group again, with rewards and group rewards. Cancelled rollouts stay unchanged. */
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

export interface ReplaySettings {
  environment: Environment;
  executor: RolloutExecutor;
  timeoutMs: number;
  rewardTimeoutMs: number;
  onUnexpectedCall: 'error' | 'warn';
  signal: AbortSignal | undefined;
}

export interface ReplayedRollout {
  rollout: Rollout;
  /** The error of the first call that is not in the record. */
  mismatch: RunError | undefined;
  /** Number of recorded calls that were not made again. */
  left: number;
}

/** Runs a rollout and its rewards again. Model calls are answered from its record. */
export async function replayRollout(
  { executor, ...settings }: ReplaySettings,
  { scenario, group, recorded }: { scenario: unknown; group: number; recorded: Rollout },
): Promise<ReplayedRollout> {
  const { index, attempt, seed, trajectory } = recorded;
  const replies = new RecordedReplies(trajectory);
  const model = new ModelHandle({ name: nameOf(trajectory), completions: replies });
  const rollout = await executor.run({ ...settings, scenario, model, group, index, attempt, seed });
  return { rollout, mismatch: replies.mismatch, left: replies.left };
}

/** The pinned name. If the rollout was not pinned, the name of the model without a step. */
function nameOf({ policy, log }: Trajectory): string {
  if (policy !== undefined) return policy;
  const [first] = log.calls;
  const parsed = first && parseModelName(first.model);
  return parsed ? `${parsed.entity}/${parsed.project}/${parsed.name}` : (first?.model ?? 'replayed');
}
