import { codeOfThrown, describeThrown, locationOfThrown, type ThrownLocation } from '../environment/index.ts';
import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import { shortPath } from '../util/show-value.ts';

/**
 * Why a rollout has no reward: `code` for programs and for counting, `message` for people. If an error caused it, also
 * where the error was thrown.
 */
export interface RolloutFailure extends ThrownLocation {
  code: string;
  message: string;
}

interface RolloutBase {
  /** Position in its group. */
  index: number;
  /** Number of earlier attempts at this index. The counts include every attempt. */
  attempt: number;
  seed: number;
  trajectory: Trajectory;
  /** Wall-clock milliseconds; 0 if the rollout never began. */
  durationMs: number;
}

/** A finished run of an agent in an environment. Only completed rollouts have a reward and are trained on. */
export type Rollout<Outcome = unknown> = RolloutBase &
  (
    | { status: 'completed'; reward: number; outcome: Outcome }
    | { status: 'failed'; failure: RolloutFailure }
    | { status: 'cancelled'; failure: RolloutFailure }
  );

/** How a rollout without a reward ended. */
export type UnrewardedEnd = { status: 'failed' | 'cancelled'; failure: RolloutFailure };

/** The rollout without its reward and outcome. Removes the reward from its trajectory. */
export function withoutReward(
  { index, attempt, seed, trajectory, durationMs }: Rollout,
  end: UnrewardedEnd,
): Rollout<never> {
  trajectory.reward = null;
  return { index, attempt, seed, trajectory, durationMs, ...end };
}

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

/** Converts any thrown value to the reason why a rollout failed. */
export function toFailure(thrown: unknown): RolloutFailure {
  return { code: codeOfThrown(thrown), message: describeThrown(thrown), ...locationOfThrown(thrown) };
}

/** The reason of a rollout that was cancelled by its signal. */
export function toCancellation(signal: AbortSignal): RolloutFailure {
  return { code: 'cancelled', message: `The run was stopped: ${describeThrown(signal.reason)}` };
}

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

/** The three most frequent kinds of failure, each with its count, a message and a source location, as text. */
export function commonFailures(groups: readonly { rollouts: readonly Rollout[] }[]): string {
  return failureKinds(groups)
    .slice(0, 3)
    .map(
      ({ code, message, at, count }) => `${count} x ${code} (${message}${at ? ` at ${shortPath(at)}` : ''})`,
    )
    .join('; ');
}

export interface RolloutGroupOptions<Scenario> {
  index: number;
  scenario: Scenario;
  rollouts: readonly Rollout[];
  /** Why the group is not trained on. Default null: it is trained on. */
  droppedBecause?: RolloutFailure | null;
}

/** The finished rollouts of one scenario, ordered by index, then by attempt. */
export class RolloutGroup<Scenario = unknown> {
  readonly index: number;
  readonly scenario: Scenario;
  /** All attempts, including failed and cancelled ones. */
  readonly rollouts: readonly Rollout[];
  /** Why the group strategy excludes the group from training; null if it does not. */
  readonly droppedBecause: RolloutFailure | null;

  constructor({ index, scenario, rollouts, droppedBecause = null }: RolloutGroupOptions<Scenario>) {
    this.index = index;
    this.scenario = scenario;
    this.rollouts = rollouts;
    this.droppedBecause = droppedBecause;
  }

  /** The group with other rollouts in place of its own. */
  withRollouts(rollouts: readonly Rollout[]): RolloutGroup<Scenario> {
    return new RolloutGroup({ ...this, rollouts });
  }

  /** Whether enough rollouts completed. A group with equal rewards is trainable too, though it teaches nothing. */
  get isTrainable(): boolean {
    return this.droppedBecause === null && this.rollouts.some(({ status }) => status === 'completed');
  }

  /** Trajectories of the completed rollouts. */
  get trajectories(): Trajectory[] {
    return this.rollouts.flatMap((rollout) => (rollout.status === 'completed' ? [rollout.trajectory] : []));
  }

  /**
   * The group as it is logged and trained on: trajectories of completed rollouts, and why the other rollouts failed.
   */
  toTrajectoryGroup(): TrajectoryGroup {
    return new TrajectoryGroup({
      trajectories: this.trajectories,
      metadata: { group: this.index },
      exceptions: this.rollouts.flatMap((rollout) =>
        rollout.status === 'completed'
          ? []
          : [{ type: rollout.failure.code, message: rollout.failure.message }],
      ),
    });
  }
}
