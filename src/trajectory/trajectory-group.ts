import type { TrajectoryGroupBody } from '../contract/index.ts';
import { hasSignal } from '../learning/index.ts';
import type { Trajectory } from './trajectory.ts';

/** Completed rollouts of one scenario. Training compares their rewards with each other. */
export class TrajectoryGroup {
  readonly trajectories: readonly Trajectory[];
  readonly metadata: Record<string, number | string | boolean | null>;
  /** Errors of the group's rollouts that ended without a reward. */
  readonly exceptions: readonly { type: string; message: string }[];

  constructor({
    trajectories,
    metadata = {},
    exceptions = [],
  }: {
    trajectories: readonly Trajectory[];
    metadata?: Record<string, number | string | boolean | null>;
    exceptions?: readonly { type: string; message: string }[];
  }) {
    this.trajectories = trajectories;
    this.metadata = metadata;
    this.exceptions = exceptions;
  }

  /**
   * Whether any choice has an advantage: the rewards, or the credited rewards that replace them, differ by more than
   * rounding. A group with equal rewards teaches nothing.
   */
  get hasSignal(): boolean {
    return hasSignal(
      this.trajectories.map(({ reward, choices }) => ({
        reward: reward ?? 0,
        credits: choices.map(({ credited_reward: credit }) => credit ?? null),
      })),
    );
  }

  toBody(): TrajectoryGroupBody {
    return {
      trajectories: this.trajectories.map((trajectory) => trajectory.toBody()),
      metadata: this.metadata,
      ...(this.exceptions.length > 0 ? { exceptions: [...this.exceptions] } : {}),
    };
  }
}
