import type { TrajectoryBody } from '../contract/index.ts';
import type { HistoryBody } from './history.ts';
import { limitReached, type TrajectoryError, type UsedUpLimit } from './trajectory-error.ts';

/** Maximum use of one rollout. An absent limit does not apply. */
export interface RolloutLimits {
  /** Model calls. */
  turns?: number;
  /**
   * Sampled tokens over all calls. The reply that reaches the limit is cut there. Concurrent calls do not see each
   * other's tokens, so together they can exceed the limit.
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

/** Use of a rollout so far. */
export interface RolloutUsage {
  turns: number;
  /** Sampled tokens. */
  tokens: number;
  toolCalls: number;
  milliseconds: number;
}

/** The error for the first limit reached; undefined if none is reached. */
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
  /** Pinned name (`entity/project/name:stepN`) of the model that must answer every call. Default: any model. */
  policy?: string;
  /** Seed of the rollout. Each call's seed is derived from it and the call's index. Default 0. */
  seed?: number;
  /** A call that cannot be trained on throws (`error`, the default), or is left out with a line in `logs` (`warn`). */
  onUnexpectedCall?: 'error' | 'warn';
  /** Aborts when the rollout ends, and cancels its calls in flight. */
  signal?: AbortSignal;
  /** The signal that the agent gets. Whenever it aborts, `signal` does. */
  agentSignal?: AbortSignal;
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
    HistoryBody {
  additional_histories?: HistoryBody[];
}
