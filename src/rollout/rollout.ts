import { codeOfThrown, describeThrown, placeOfThrown, type ThrownPlace } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { shortPath } from '../util/complaint.ts';

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

/** What was thrown, whatever it is, as the reason of a rollout without a reward. */
export function toFailure(thrown: unknown): RolloutFailure {
  return { code: codeOfThrown(thrown), message: describeThrown(thrown), ...placeOfThrown(thrown) };
}

/** Why a rollout was stopped from outside. */
export function toCancellation(signal: AbortSignal): RolloutFailure {
  return { code: 'cancelled', message: `The run was stopped: ${describeThrown(signal.reason)}` };
}

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
