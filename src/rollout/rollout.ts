import type { ThrownPlace } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';

/**
 * Why a rollout has no reward: `code` for programs and for counting, `message` for people; where it was thrown, if
 * anything was.
 */
export interface RolloutFailure extends ThrownPlace {
  code: string;
  message: string;
}

interface RolloutBase {
  /** Place in its group. */
  index: number;
  /** 0, or how often the place had been tried before: each attempt is a rollout of its own in the counts. */
  attempt: number;
  seed: number;
  trajectory: Trajectory;
  /** Wall-clock milliseconds, 0 for one that never began. */
  durationMs: number;
}

/** One run of an agent in an environment, ended. Only completed rollouts have a reward and train. */
export type Rollout<Outcome = unknown> = RolloutBase &
  (
    | { status: 'completed'; reward: number; outcome: Outcome }
    | { status: 'failed'; failure: RolloutFailure }
    | { status: 'cancelled'; failure: RolloutFailure }
  );

/** `dispatched` = `completed` + `failed` + `cancelled`, always. */
export interface RolloutCounts {
  dispatched: number;
  completed: number;
  failed: number;
  cancelled: number;
}

export function countRollouts(rollouts: Iterable<Rollout>): RolloutCounts {
  const counts: RolloutCounts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const { status } of rollouts) {
    counts.dispatched++;
    counts[status]++;
  }
  return counts;
}
