import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import {
  type Rollout,
  type RolloutFailure,
  rolloutOfSeat,
  seatNotPlayed,
  trajectoriesOf,
} from './rollout.ts';
import { hasPlayed } from './seats.ts';

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
