import { APICallError } from '@ai-sdk/provider';
import { ContextLengthError } from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { isPromptTooLong } from '../model/index.ts';
import {
  isLimitReached,
  limitReached,
  type RolloutLimits,
  type Trajectory,
  type UsedUpLimit,
} from '../trajectory/index.ts';
import { startTimer } from '../util/deadline.ts';
import type { AgentContext, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import { codeOfThrown, describeThrown, errorsWithin } from './thrown.ts';

export interface RunAgentOptions<Outcome> {
  opened: OpenEnvironment<Outcome>;
  agent: AgentContext;
  /** Its signal is `agent.signal`: aborted when the time limit passes. */
  controller: AbortController;
  limits: RolloutLimits;
}

/**
 * Runs the agent until it returns, throws, or has used up its time, and says what came of it. Where a limit ended it,
 * that is for `atLimit` to say; without it, what the agent made of the refused call counts, and what it threw is
 * the limit's error. Of what an agent threw by itself, `onError` may make an outcome.
 * @throws what the agent threw, EnvironmentError (`on_error_failed`), and TrajectoryError of a limit or an unexpected
 * call, also where the agent swallowed it.
 */
export async function runAgent<Outcome>(options: RunAgentOptions<Outcome>): Promise<Outcome> {
  const { opened, agent, limits } = options;
  const { trajectory } = agent;
  const ended = await untilEnd(options);
  // A swallowed error is still an error: the conversation went on without what the policy would have said.
  if (trajectory.violation) throw trajectory.violation;
  const reason = limitOf(ended, trajectory);
  if (reason === undefined) {
    if (ended.status === 'threw') return await outcomeOfError(options, ended.error);
    return ended.outcome;
  }
  trajectory.stopReason ??= reason;
  if (ended.status === 'threw' && !isLimitReached(ended.error))
    trajectory.logs.push(`After the ${reason} the agent threw: ${describeThrown(ended.error)}`);
  if (opened.atLimit) return await opened.atLimit({ ...agent, reason });
  if (ended.status === 'returned') return ended.outcome;
  throw isLimitReached(ended.error) ? ended.error : limitReached(reason, limits[limitFields[reason]] ?? 0);
}

/** What the environment makes of an error that may be the policy's own doing. @throws the error, or what `onError` threw. */
async function outcomeOfError<Outcome>(
  { opened, agent }: RunAgentOptions<Outcome>,
  error: unknown,
): Promise<Outcome> {
  const { trajectory, signal } = agent;
  const origin = originOf(error, trajectory);
  if (origin === 'outside' || signal.aborted) throw error;
  const isAtContextEnd = origin === 'context_limit';
  const stopReason = isAtContextEnd ? origin : `error:${codeOfThrown(error).slice(0, longestCode)}`;
  const made = await opened.onError?.({ ...agent, error, stopReason, isAtContextEnd });
  // `onError` may have called a model too.
  if (trajectory.violation) throw trajectory.violation;
  if (!made) throw error;
  trajectory.stopReason ??= stopReason;
  return made.outcome;
}

type Ended<Outcome> = { status: 'returned'; outcome: Outcome } | { status: 'threw'; error: unknown };

async function untilEnd<Outcome>({
  opened,
  agent,
  controller,
  limits: { milliseconds },
}: RunAgentOptions<Outcome>): Promise<Ended<Outcome>> {
  const { promise: timeUp, reject } = Promise.withResolvers<never>();
  const timer =
    milliseconds === undefined
      ? undefined
      : startTimer(milliseconds - agent.trajectory.usage.milliseconds, () => {
          const error = limitReached('time_limit', milliseconds);
          agent.trajectory.stopReason ??= error.code;
          reject(error);
          controller.abort(error);
        });
  try {
    const outcome = await Promise.race([opened.rollout(agent), timeUp]);
    agent.trajectory.observations.endAgent();
    return { status: 'returned', outcome };
  } catch (error) {
    return { status: 'threw', error };
  } finally {
    timer?.clear();
  }
}

/** Of an error's code in a stop reason: reports count rollouts by it. */
const longestCode = 100;

const limitFields: Record<UsedUpLimit, keyof RolloutLimits> = {
  turn_limit: 'turns',
  token_limit: 'tokens',
  tool_call_limit: 'toolCalls',
  time_limit: 'milliseconds',
};

function limitOf<Outcome>(ended: Ended<Outcome>, { stopReason }: Trajectory): UsedUpLimit | undefined {
  if (ended.status === 'threw' && isLimitReached(ended.error)) return ended.error.code;
  return isUsedUpLimit(stopReason) ? stopReason : undefined;
}

function isUsedUpLimit(reason: string | null): reason is UsedUpLimit {
  return reason !== null && Object.hasOwn(limitFields, reason);
}

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
    if (error instanceof EnvironmentError && error.code === 'tool_failed') return 'agent';
    return MartingaleError.isInstance(error) || APICallError.isInstance(error) ? 'outside' : 'agent';
  } catch {
    // A proxy that does not let itself be looked at is none of those.
    return 'agent';
  }
}
