import { codeOfThrown, describeThrown, locationOfThrown, type ThrownLocation } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { hasPlayed, type SeatRun } from './seats.ts';

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
  /** In an environment with seats: the reward of the first seat that the run's model plays. */
  trajectory: Trajectory;
  /**
   * All seats; absent in an environment with one agent. The reward is then the mean of the seats that the model of the run
   * plays.
   */
  seats?: readonly SeatRun[];
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

/** The rollout without its reward and outcome. Removes the rewards from its trajectories. */
export function withoutReward(
  { index, attempt, seed, trajectory, seats, durationMs }: Rollout,
  end: UnrewardedEnd,
): Rollout<never> {
  for (const one of [trajectory, ...(seats ?? []).map((seat) => seat.trajectory)]) one.reward = null;
  return { index, attempt, seed, trajectory, ...(seats ? { seats } : {}), durationMs, ...end };
}

/** All trajectories of a rollout: one for each seat, or the only one. */
export const trajectoriesOf = ({ trajectory, seats }: Pick<Rollout, 'trajectory' | 'seats'>): Trajectory[] =>
  seats ? seats.map((seat) => seat.trajectory) : [trajectory];

/** A rollout as its seat at this position saw it. A seat without a call has no reward. */
export function rolloutOfSeat<Outcome>(
  { seats, ...rollout }: Rollout<Outcome>,
  at: number,
): Rollout<Outcome> {
  const seat = seats?.[at];
  if (!seat) throw new TypeError(`The rollout has no seat ${at}.`);
  const { trajectory } = seat;
  if (rollout.status !== 'completed') return { ...rollout, trajectory };
  if (hasPlayed(seat)) return { ...rollout, trajectory, reward: trajectory.reward ?? 0 };
  const { index, attempt, seed, durationMs } = rollout;
  const message = `The seat "${seat.seat}" made no model call in this rollout.`;
  const failure = { code: seatNotPlayed, message };
  return { index, attempt, seed, trajectory, durationMs, status: 'cancelled', failure };
}

/** Code of a completed rollout's seat that had no turn. */
export const seatNotPlayed = 'seat_not_played';

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

/** Longest message that is kept, in characters: some have a whole page in them, and each failed rollout stores one. */
const maxMessageLength = 4000;

/** Converts any thrown value to the reason why a rollout failed. */
export function toFailure(thrown: unknown): RolloutFailure {
  const whole = describeThrown(thrown);
  const message = whole.length > maxMessageLength ? `${whole.slice(0, maxMessageLength)}…` : whole;
  return { code: codeOfThrown(thrown), message, ...locationOfThrown(thrown) };
}

/** The reason of a rollout that was cancelled by its signal. */
export function toCancellation(signal: AbortSignal): RolloutFailure {
  return { code: 'cancelled', message: `The run was stopped: ${describeThrown(signal.reason)}` };
}
