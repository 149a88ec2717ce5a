import { APICallError } from '@ai-sdk/provider';
import { ContextLengthError } from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { isPromptTooLong } from '../model/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { ToolError } from './loop/errors.ts';
import { errorsWithin } from './thrown-errors.ts';

/**
 * What an agent's error means for its rollout.
 *
 * - `agent`: it may be the policy's own doing, and `onError` is asked.
 * - `context_limit`: the conversation has met the end of the model's context.
 * - `outside`: something around the policy failed. Such a rollout is failed, and no reward is made of it.
 */
export type ErrorOrigin = 'agent' | 'context_limit' | 'outside';

/**
 * Where the error of an agent that threw comes from. It is `outside` where a model call of the rollout got no answer,
 * whatever the agent made of that, and where the error is, or was caused by, one of martingale's own (a judge that
 * failed, a call after the rollout's end) or a provider's failed call.
 */
export function originOf(error: unknown, { callEnds }: Trajectory): ErrorOrigin {
  if (callEnds.hasUnanswered) return 'outside';
  const kinds = errorsWithin(error).map((within) => kindOf(within, callEnds.isAtContextEnd));
  if (kinds.includes('outside')) return 'outside';
  return callEnds.isAtContextEnd || kinds.includes('context_limit') ? 'context_limit' : 'agent';
}

function kindOf(error: unknown, isAtContextEnd: boolean): ErrorOrigin {
  try {
    // An external model's provider refuses a prompt by an error of its own; so does that of another model, such as a tool's.
    if (error instanceof ContextLengthError || (isAtContextEnd && isPromptTooLong(error)))
      return 'context_limit';
    if (error instanceof ToolError) return 'agent';
    return MartingaleError.isInstance(error) || APICallError.isInstance(error) ? 'outside' : 'agent';
  } catch {
    // A proxy that does not let itself be looked at is none of those.
    return 'agent';
  }
}
