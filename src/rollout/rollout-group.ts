import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

export interface RolloutGroupOptions<Scenario> {
  index: number;
  scenario: Scenario;
  rollouts: readonly Rollout[];
  /** Why the group is not trained on. Default null: it is. */
  droppedBecause?: RolloutFailure | null;
}

/** The rollouts of one scenario, all ended, in order of their place and then of their attempt. */
export class RolloutGroup<Scenario = unknown> {
  readonly index: number;
  readonly scenario: Scenario;
  /** Every attempt: what the counts count. */
  readonly rollouts: readonly Rollout[];
  /** Why the group strategy takes the group out of training; null where it does not. */
  readonly droppedBecause: RolloutFailure | null;

  constructor({ index, scenario, rollouts, droppedBecause = null }: RolloutGroupOptions<Scenario>) {
    this.index = index;
    this.scenario = scenario;
    this.rollouts = rollouts;
    this.droppedBecause = droppedBecause;
  }

  /** Whether enough of its rollouts completed. A group without a difference in rewards is trainable, and teaches nothing. */
  get isTrainable(): boolean {
    return this.droppedBecause === null && this.rollouts.some(({ status }) => status === 'completed');
  }

  /** Trajectories of the completed rollouts. */
  get trajectories(): Trajectory[] {
    return this.rollouts.flatMap((rollout) => (rollout.status === 'completed' ? [rollout.trajectory] : []));
  }

  /** What is logged and, where the group is trainable, trained on: the completed rollouts, and why others are missing. */
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
