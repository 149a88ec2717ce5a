import type { z } from 'zod';
import { fromTrajectoryRecord, Trajectory } from '../../trajectory/index.ts';
import { toCancellation } from '../failure.ts';
import type { Rollout, RolloutFailure } from '../rollout.ts';
import type { RunRolloutOptions } from '../run-rollout.ts';
import type { SentRollout } from './messages.ts';

type Task<Schema extends z.ZodType, Outcome> = RunRolloutOptions<Schema, Outcome>;

/** The rollout as a thread sent it. Its outcome is what the environment's own function returned, cloned. */
export function toRollout<Outcome>({ trajectory, ...rollout }: SentRollout): Rollout<Outcome> {
  return { ...rollout, trajectory: fromTrajectoryRecord(trajectory) } as Rollout<Outcome>;
}

/** A rollout that no thread gave an end to: cancelled where it had been, else failed; nothing of it was kept. */
export function lostRollout<Schema extends z.ZodType, Outcome>(
  { index, attempt, seed, group, model, signal }: Task<Schema, Outcome>,
  failure: RolloutFailure,
  begun: number,
): Rollout<Outcome> {
  const trajectory = new Trajectory({ seed, ...(model.step === undefined ? {} : { policy: model.name }) });
  Object.assign(trajectory.metadata, { group, rollout: index, seed });
  trajectory.close();
  const base = { index, attempt, seed, trajectory, durationMs: performance.now() - begun };
  if (signal?.aborted) return { ...base, status: 'cancelled', failure: toCancellation(signal) };
  return { ...base, status: 'failed', failure };
}
