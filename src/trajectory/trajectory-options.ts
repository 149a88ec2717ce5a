import type { TrajectoryBody } from '../contract/index.ts';
import type { RestoredCall } from './call-log.ts';
import type { Conversation, History } from './history.ts';
import type { ObservationsRecord } from './observations.ts';
import {
  limitReached,
  type TrajectoryError,
  type UnexpectedCallError,
  type UsedUpLimit,
} from './trajectory-error.ts';

/** The most that one rollout may use. An absent limit does not apply. */
export interface RolloutLimits {
  /** Model calls. */
  turns?: number;
  /**
   * Sampled tokens of all calls together; the reply that reaches the limit is cut there. Calls in flight at the same
   * time do not see each other's tokens: each is cut for itself.
   */
  tokens?: number;
  /** Tool calls in the policy's replies. */
  toolCalls?: number;
  /** Wall-clock milliseconds from the rollout's start. */
  milliseconds?: number;
}

/**
 * The limit that ended a rollout, as in `stop_reason` of the trajectory's metadata. `context_limit`: the rollout threw
 * because the model's context is full.
 */
export type LimitReason = UsedUpLimit | 'context_limit';

/** What a rollout has used so far. */
export interface RolloutUsage {
  turns: number;
  /** Sampled tokens. */
  tokens: number;
  toolCalls: number;
  milliseconds: number;
}

/** An error that names the first limit that has been reached; undefined if none has. */
export function reachedLimit(
  { turns, tokens, toolCalls, milliseconds }: RolloutLimits,
  used: RolloutUsage,
): TrajectoryError<UsedUpLimit> | undefined {
  if (turns !== undefined && used.turns >= turns) return limitReached('turn_limit', turns);
  if (tokens !== undefined && used.tokens >= tokens) return limitReached('token_limit', tokens);
  if (toolCalls !== undefined && used.toolCalls >= toolCalls)
    return limitReached('tool_call_limit', toolCalls);
  if (milliseconds !== undefined && used.milliseconds >= milliseconds)
    return limitReached('time_limit', milliseconds);
  return undefined;
}

export interface TrajectoryOptions {
  /** Pinned name (`entity/project/name:stepN`) that must answer every call. Absent: any model may answer. */
  policy?: string;
  /** Seed of the rollout; each call's seed follows from it and from the call's index. Default 0. */
  seed?: number;
  /** For a call that cannot be trained on: `error` fails (default), `warn` leaves it out and adds a line to `logs`. */
  onUnexpectedCall?: 'error' | 'warn';
  /** Aborted when the rollout is over: calls still in flight end with it. */
  signal?: AbortSignal;
  /** A call beyond a limit throws TrajectoryError. Default: no limits. */
  limits?: RolloutLimits;
  /** Default: a new UUID. */
  id?: string;
  /** Default: now. */
  startTime?: Date;
}

/** A trajectory as on the wire, without its reward. */
export interface UnrewardedTrajectory
  extends Omit<TrajectoryBody, 'reward' | 'messages_and_choices' | 'tools' | 'additional_histories'>,
    Conversation {
  additional_histories?: Conversation[];
}

/** The state of a trajectory that was read back, as it was when the trajectory was closed. */
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
