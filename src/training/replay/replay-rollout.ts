import { parseModelName } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { ModelHandle } from '../../model/index.ts';
import type { Rollout, RolloutExecutor } from '../../rollout/index.ts';
import type { Trajectory } from '../../trajectory/index.ts';
import type { ReplayMismatchError } from './errors.ts';
import { RecordedReplies } from './recorded-replies.ts';

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
  /** The first call that is not on record. */
  mismatch: ReplayMismatchError | undefined;
  /** Recorded calls that were not made. */
  left: number;
}

/** Runs a rollout again, to the end of its rewards, with each model call answered from its record. */
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

/** The pinned name; without one, that of the model of whichever step, as it was not pinned then either. */
function nameOf({ policy, recordedCalls: [first] }: Trajectory): string {
  if (policy !== undefined) return policy;
  const parsed = first && parseModelName(first.model);
  return parsed ? `${parsed.entity}/${parsed.project}/${parsed.name}` : (first?.model ?? 'replayed');
}
