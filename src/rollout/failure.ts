import { MartingaleError } from '../contract/index.ts';
import { describeThrown } from '../environment/index.ts';
import type { RolloutFailure } from './rollout.ts';

/** What was thrown, whatever it is, as the reason of a rollout without a reward. */
export function toFailure(thrown: unknown): RolloutFailure {
  const message = describeThrown(thrown);
  if (MartingaleError.isInstance(thrown)) return { code: thrown.code, message };
  return { code: nameOf(thrown), message };
}

function nameOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error)
      return typeof thrown.name === 'string' && thrown.name ? thrown.name : 'Error';
  } catch {
    // A name that cannot be read is none.
  }
  return 'thrown';
}

/** Why a rollout was stopped from outside. */
export function toCancellation(signal: AbortSignal): RolloutFailure {
  return { code: 'cancelled', message: `The run was stopped: ${describeThrown(signal.reason)}` };
}
