import type { TrajectoryGroupBody } from '../contract/index.ts';
import { groupStandardDeviation } from '../learning/index.ts';
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

  /** Whether the rewards differ by more than rounding: a group of equal rewards has no advantage and teaches nothing. */
  get hasSignal(): boolean {
    return groupStandardDeviation(this.trajectories.map(({ reward }) => reward ?? 0)) > 0;
  }

  toBody(): TrajectoryGroupBody {
    return {
      trajectories: this.trajectories.map((trajectory) => trajectory.toBody()),
      metadata: this.metadata,
      ...(this.exceptions.length > 0 ? { exceptions: [...this.exceptions] } : {}),
    };
  }
}
