import { shortPath } from '../environment/index.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

/** Failures of the same code that were thrown in the same place. */
export interface FailureKind extends Pick<RolloutFailure, 'code' | 'at'> {
  /** Of the first of them. */
  message: string;
  count: number;
}

/** The kinds of failure among rollouts, the most frequent first. */
export function failureKinds(groups: readonly { rollouts: readonly Rollout[] }[]): FailureKind[] {
  const kinds = new Map<string, FailureKind>();
  for (const rollout of groups.flatMap((group) => group.rollouts)) {
    if (rollout.status === 'completed') continue;
    const { code, message, at } = rollout.failure;
    const key = `${code} ${at}`;
    const known = kinds.get(key);
    if (known) known.count++;
    else kinds.set(key, { code, message, ...(at === undefined ? {} : { at }), count: 1 });
  }
  return [...kinds.values()].sort((a, b) => b.count - a.count);
}

/** The reasons that ended most rollouts, with how many, and one message and place each, for people. */
export function commonFailures(groups: readonly { rollouts: readonly Rollout[] }[]): string {
  return failureKinds(groups)
    .slice(0, 3)
    .map(
      ({ code, message, at, count }) => `${count} x ${code} (${message}${at ? ` at ${shortPath(at)}` : ''})`,
    )
    .join('; ');
}
