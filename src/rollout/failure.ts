import { codeOfThrown, describeThrown, placeOfThrown } from '../environment/index.ts';
import type { RolloutFailure } from './rollout.ts';

/** What was thrown, whatever it is, as the reason of a rollout without a reward. */
export function toFailure(thrown: unknown): RolloutFailure {
  return { code: codeOfThrown(thrown), message: describeThrown(thrown), ...placeOfThrown(thrown) };
}

/** Why a rollout was stopped from outside. */
export function toCancellation(signal: AbortSignal): RolloutFailure {
  return { code: 'cancelled', message: `The run was stopped: ${describeThrown(signal.reason)}` };
}
