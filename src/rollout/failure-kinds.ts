import { printable } from '../contract/index.ts';
import { shortPath } from '../util/show-value.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

/** Failures with the same code, thrown at the same source location. */
export interface FailureKind extends Pick<RolloutFailure, 'code' | 'at'> {
  /** Message of the first failure. */
  message: string;
  count: number;
}

/** The kinds of failure among the rollouts, most frequent first. */
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

/** A line of text for each kind of failure: `x 4 TypeError: the database is away at src/agent.ts:17`. */
export const describeFailureKinds = (
  kinds: readonly { code: string; message: string; count: number; at?: string | null | undefined }[],
): string[] =>
  kinds.map(
    ({ code, message, count, at }) =>
      `x ${count} ${code}: ${printable(message)}${at ? ` at ${shortPath(at)}` : ''}`,
  );

/** The three most frequent kinds of failure, each with its count, a message and a source location, as text. */
export function commonFailures(groups: readonly { rollouts: readonly Rollout[] }[]): string {
  return failureKinds(groups)
    .slice(0, 3)
    .map(
      ({ code, message, at, count }) => `${count} x ${code} (${message}${at ? ` at ${shortPath(at)}` : ''})`,
    )
    .join('; ');
}
