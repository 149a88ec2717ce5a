import { MartingaleError } from '../contract/index.ts';

/** What one rollout may use. A limit that is not given is not there. */
export interface RolloutLimits {
  /** Model calls. */
  turns?: number;
  /**
   * Sampled tokens of all calls together; a call's reply is cut where they are used up. Calls in flight at the same
   * time know nothing of each other's tokens: each is cut for itself.
   */
  tokens?: number;
  /** Tool calls that the policy has asked for. */
  toolCalls?: number;
  /** Wall-clock milliseconds from the rollout's start. */
  milliseconds?: number;
}

/** One of the environment's `limits`, used up. */
export type UsedUpLimit = 'turn_limit' | 'token_limit' | 'tool_call_limit' | 'time_limit';

/**
 * The limit that ended a rollout, as `stop_reason` has it in the trajectory's metadata. `context_limit`: the rollout
 * threw where the model's context is full.
 */
export type LimitReason = UsedUpLimit | 'context_limit';

/** The rollout has used up one of its limits: this model call is not made. */
export class LimitReachedError extends MartingaleError {
  readonly reason: UsedUpLimit;
  readonly limit: number;

  constructor(reason: UsedUpLimit, limit: number) {
    super(
      reason,
      `The rollout has reached its limit of ${limit} ${units[reason]}. Raise the environment's \`limits\`, or give ` +
        'it `atLimit`, which says what came of a rollout that ends here.',
    );
    this.reason = reason;
    this.limit = limit;
  }
}

const units: Record<UsedUpLimit, string> = {
  turn_limit: 'model calls',
  token_limit: 'sampled tokens',
  tool_call_limit: 'tool calls',
  time_limit: 'milliseconds',
};

/** What a rollout has used so far. */
export interface RolloutUsage {
  turns: number;
  /** Sampled. */
  tokens: number;
  toolCalls: number;
  milliseconds: number;
}

/** The first limit that is used up, if one is. */
export function reachedLimit(limits: RolloutLimits, used: RolloutUsage): LimitReachedError | undefined {
  const { turns, tokens, toolCalls, milliseconds } = limits;
  if (turns !== undefined && used.turns >= turns) return new LimitReachedError('turn_limit', turns);
  if (tokens !== undefined && used.tokens >= tokens) return new LimitReachedError('token_limit', tokens);
  if (toolCalls !== undefined && used.toolCalls >= toolCalls)
    return new LimitReachedError('tool_call_limit', toolCalls);
  if (milliseconds !== undefined && used.milliseconds >= milliseconds)
    return new LimitReachedError('time_limit', milliseconds);
  return undefined;
}
