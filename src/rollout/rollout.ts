import { printable } from '../contract/index.ts';
import { codeOfThrown, describeThrown, locationOfThrown, type ThrownLocation } from '../environment/index.ts';
import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import { shortPath } from '../util/show-value.ts';
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

export interface RolloutGroupOptions<Scenario> {
  index: number;
  scenario: Scenario;
  /** What the environment calls the scenario. */
  title?: string | undefined;
  rollouts: readonly Rollout[];
  /** Why the group is not trained on. Default null: it is trained on. */
  droppedBecause?: RolloutFailure | null;
  /** The one seat whose trajectories these are. Default: all seats, or an environment with one agent. */
  seat?: GroupSeat | undefined;
}

/** The seat of a group that holds one seat of its rollouts. */
export interface GroupSeat {
  name: string;
  /** Position in the environment's list of seats. */
  at: number;
  /** Number of seats of the environment. */
  of: number;
  /** Name of the model that played it. */
  model: string;
  trains: boolean;
  /** Whether it is the model of the run. */
  isPolicy: boolean;
}

/** The finished rollouts of one scenario, ordered by index, then by attempt. */
export class RolloutGroup<Scenario = unknown> {
  readonly index: number;
  readonly scenario: Scenario;
  /** What the environment calls the scenario; undefined if it has no option `title`. */
  readonly title: string | undefined;
  /** All attempts, including failed and cancelled ones. */
  readonly rollouts: readonly Rollout[];
  /** Why the group strategy excludes the group from training; null if it does not. */
  readonly droppedBecause: RolloutFailure | null;
  /** The one seat whose trajectories these are; see `bySeat`. */
  readonly seat: GroupSeat | undefined;

  constructor(options: RolloutGroupOptions<Scenario>) {
    const { index, scenario, title, rollouts, droppedBecause = null, seat } = options;
    this.index = index;
    this.scenario = scenario;
    this.title = title;
    this.rollouts = rollouts;
    this.droppedBecause = droppedBecause;
    this.seat = seat;
  }

  /**
   * One group for each seat, since a seat is compared with the same seat of the scenario's other rollouts only. Their
   * indices count on from `index` times the number of seats. Without seats: the group itself.
   */
  bySeat(): RolloutGroup<Scenario>[] {
    const seats = this.rollouts[0]?.seats;
    if (!seats) return [this];
    return seats.map(({ seat: name, model, trains, isPolicy }, at) => {
      const frozen = {
        code: 'seat_does_not_train',
        message: `The seat "${name}" is played by ${model}, which does not train.`,
      };
      return new RolloutGroup({
        index: this.index * seats.length + at,
        scenario: this.scenario,
        title: this.title,
        rollouts: this.rollouts.map((rollout) => rolloutOfSeat(rollout, at)),
        droppedBecause: trains ? this.droppedBecause : frozen,
        seat: { name, at, of: seats.length, model, trains, isPolicy },
      });
    });
  }

  /** The group with other rollouts in place of its own. */
  withRollouts(rollouts: readonly Rollout[]): RolloutGroup<Scenario> {
    return new RolloutGroup({ ...this, rollouts });
  }

  /** Whether a trajectory was released, so that the group's record can only be read from disk. */
  get isReleased(): boolean {
    return this.rollouts.some((rollout) => trajectoriesOf(rollout).some(({ isReleased }) => isReleased));
  }

  /** Lets most of the memory of its trajectories go (see `Trajectory.release`), and without `keepsTexts` the outcomes. */
  release(options?: Parameters<Trajectory['release']>[0]): void {
    for (const trajectory of this.rollouts.flatMap(trajectoriesOf)) trajectory.release(options);
    if (options?.keepsTexts) return;
    for (const rollout of this.rollouts) if (rollout.status === 'completed') rollout.outcome = undefined;
  }

  /** Whether enough rollouts completed. A group with equal rewards is trainable too, though it teaches nothing. */
  get isTrainable(): boolean {
    return this.droppedBecause === null && this.rollouts.some(({ status }) => status === 'completed');
  }

  /** Trajectories of the completed rollouts; of all seats that the model of the run plays and that made a call. */
  get trajectories(): Trajectory[] {
    return this.rollouts.flatMap(({ status, trajectory, seats }) => {
      if (status !== 'completed') return [];
      if (!seats) return [trajectory];
      return seats.filter((seat) => seat.isPolicy && hasPlayed(seat)).map((seat) => seat.trajectory);
    });
  }

  /**
   * The group as it is logged and trained on: trajectories of completed rollouts, and why the other rollouts failed.
   * @throws TypeError for a group of several seats, which are not compared with each other: call `bySeat` first.
   */
  toTrajectoryGroup(): TrajectoryGroup {
    if (this.rollouts.some(({ seats }) => seats))
      throw new TypeError('The group holds several seats. Make one of each: `group.bySeat()`.');
    return new TrajectoryGroup({
      trajectories: this.trajectories,
      metadata: { group: this.index, ...(this.seat ? { seat: this.seat.name } : {}) },
      exceptions: this.rollouts.flatMap((rollout) =>
        rollout.status === 'completed' || rollout.failure.code === seatNotPlayed
          ? []
          : [{ type: rollout.failure.code, message: rollout.failure.message }],
      ),
    });
  }
}
