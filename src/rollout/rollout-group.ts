import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

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
