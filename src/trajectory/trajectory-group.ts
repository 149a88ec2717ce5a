import type { TrajectoryGroupBody } from '../contract/index.ts';
import { hasSignal } from '../learning/index.ts';
import type { Trajectory } from './trajectory.ts';

/** Rollouts of one scenario, whose rewards are compared with each other. Only completed rollouts are members. */
export class TrajectoryGroup {
  readonly trajectories: readonly Trajectory[];
  readonly metadata: Record<string, number | string | boolean | null>;
  /** Why the group's other rollouts ended without a reward. */
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
   * Whether any choice has an advantage: whether the rewards, or what choices are credited with in their place, differ
   * by more than rounding. A group of equal ones teaches nothing.
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
