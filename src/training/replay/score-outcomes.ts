import { checkMetrics } from '../../environment/index.ts';
import {
  fromGroupRecord,
  type GroupRecord,
  type Rollout,
  RolloutGroup,
  settleGroup,
  toFailure,
} from '../../rollout/index.ts';
import { runOutsideTrajectory } from '../../trajectory/index.ts';
import type { ReplaySettings } from './replay-rollout.ts';

/** Why a group's stored outcomes are not enough to score it; undefined where they are. */
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

/** Scores the completed rollouts of a group anew from their stored outcomes. The others stay as they were. */
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
