import type { z } from 'zod';
import type { Rollout } from './rollout.ts';
import type { RunRolloutOptions } from './run-rollout.ts';

/** Where rollouts run, and how many at a time. One executor may serve several groups, steps and runs. */
export interface RolloutExecutor {
  /**
   * Runs one rollout to its end, when there is room for it; one whose signal aborts ends without waiting for room.
   * Never throws.
   * @param place.order Rollouts with a smaller number go first; equal ones in the order in which they came.
   */
  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    place?: { order?: number },
  ): Promise<Rollout<Outcome>>;
  /** Ends what is left of it: threads, timers. Rollouts that still run end cancelled. */
  close(): Promise<void>;
}

let groupsStarted = 0;

/** A larger number for each group that starts, so that an early group's retries go before a later group. */
export function nextGroupOrder(): number {
  return groupsStarted++;
}
