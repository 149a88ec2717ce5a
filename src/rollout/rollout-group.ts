import { type Trajectory, TrajectoryGroup } from '../trajectory/index.ts';
import type { Rollout } from './rollout.ts';

/** The rollouts of one scenario, all ended, in order of their index. */
export class RolloutGroup<Scenario = unknown> {
  readonly index: number;
  readonly scenario: Scenario;
  readonly rollouts: readonly Rollout[];

  constructor({
    index,
    scenario,
    rollouts,
  }: { index: number; scenario: Scenario; rollouts: readonly Rollout[] }) {
    this.index = index;
    this.scenario = scenario;
    this.rollouts = rollouts;
  }

  /** Trajectories of the completed rollouts. */
  get trajectories(): Trajectory[] {
    return this.rollouts.flatMap((rollout) => (rollout.status === 'completed' ? [rollout.trajectory] : []));
  }

  /** What is logged and trained on: the completed rollouts, and why the others are missing. */
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
