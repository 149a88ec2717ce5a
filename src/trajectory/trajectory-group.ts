import { requestLimits, type TrajectoryGroupBody, trainingLimits } from '../contract/index.ts';
import { hasSignal } from '../learning/index.ts';
import { checkArgument } from '../util/option-names.ts';
import type { BodyForm } from './history.ts';
import { shorten } from './sendable.ts';
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
    checkArgument('trajectories', trajectories, 'list');
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

  /** The group in its wire format. @param form Default `whole`. */
  toBody(form?: BodyForm): TrajectoryGroupBody {
    return {
      trajectories: this.trajectories.map((trajectory) => trajectory.toBody(form)),
      metadata: this.metadata,
      ...(this.exceptions.length > 0 ? { exceptions: sendableExceptions(this.exceptions) } : {}),
    };
  }
}

/** As many exceptions as a service accepts, with texts as long as it accepts. */
function sendableExceptions(exceptions: TrajectoryGroup['exceptions']): { type: string; message: string }[] {
  const most = trainingLimits.exceptions;
  const sent = exceptions.slice(0, exceptions.length > most ? most - 1 : most).map(({ type, message }) => ({
    type: shorten(type, requestLimits.name),
    message: shorten(message, requestLimits.text),
  }));
  const leftOut = exceptions.length - sent.length;
  if (leftOut > 0) sent.push({ type: 'left_out', message: `${leftOut} more exceptions of the group` });
  return sent;
}
