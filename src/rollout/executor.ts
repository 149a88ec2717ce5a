import type { z } from 'zod';
import type { Rollout } from './rollout.ts';
import type { RunRolloutOptions } from './run-rollout.ts';

/** Where rollouts run, and how many at a time. One executor may serve several groups and steps. */
export interface RolloutExecutor {
  /** Runs one rollout to its end, when there is room for it. Never throws. */
  run<Schema extends z.ZodType, Outcome>(task: RunRolloutOptions<Schema, Outcome>): Promise<Rollout<Outcome>>;
  /** Ends what is left of it: threads, timers. Rollouts that still run end cancelled. */
  close(): Promise<void>;
}
