import type { TrajectoryBody } from '../contract/index.ts';
import type { RestoredCall } from './call-log.ts';
import type { UnexpectedCallError } from './errors.ts';
import type { Conversation, History } from './history.ts';
import type { RolloutLimits } from './limits.ts';
import type { ObservationsRecord } from './observations.ts';

export interface TrajectoryOptions {
  /** Pinned name (`entity/project/name:stepN`) that must answer every call; absent: whatever answers is taken. */
  policy?: string;
  /** Seed of the rollout; each call's seed follows from it and from the call's index. Default 0. */
  seed?: number;
  /** What to do with a call that cannot be trained on: fail (default), or leave it out and say so in `logs`. */
  onUnexpectedCall?: 'error' | 'warn';
  /** Aborted when the rollout is over: calls still in flight end with it. */
  signal?: AbortSignal;
  /** What the rollout may use; a call beyond it throws LimitReachedError. Default: no limits. */
  limits?: RolloutLimits;
  /** Default: a new UUID. */
  id?: string;
  /** Default: now. */
  startTime?: Date;
}

/** A trajectory as the wire has it, but for its reward. */
export interface UnrewardedTrajectory
  extends Omit<TrajectoryBody, 'reward' | 'messages_and_choices' | 'tools' | 'additional_histories'>,
    Conversation {
  additional_histories?: Conversation[];
}

/** What a trajectory that was read back had in it when it was closed. */
export interface RestoredTrajectory {
  histories: readonly History[];
  calls: readonly RestoredCall[];
  turns: number;
  milliseconds: number;
  /** Indexes of the calls whose prompts were longer than the context. */
  refusedCalls: readonly number[];
  violation: UnexpectedCallError | undefined;
  externalModel: string | undefined;
  observations: ObservationsRecord | undefined;
}
