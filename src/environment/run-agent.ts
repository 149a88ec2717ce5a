import {
  LimitReachedError,
  type RolloutLimits,
  type Trajectory,
  type UsedUpLimit,
} from '../trajectory/index.ts';
import { startTimer } from '../util/deadline.ts';
import { originOf } from './agent-error.ts';
import { codeOfThrown, describeThrown } from './describe-thrown.ts';
import type { AgentContext, OpenEnvironment } from './environment.ts';

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
 * @throws what the agent threw, OnErrorError, LimitReachedError, UnexpectedCallError also where the agent swallowed it.
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
  if (ended.status === 'threw' && !isLimitError(ended.error))
    trajectory.logs.push(`After the ${reason} the agent threw: ${describeThrown(ended.error)}`);
  if (opened.atLimit) return await opened.atLimit({ ...agent, reason });
  if (ended.status === 'returned') return ended.outcome;
  throw isLimitError(ended.error)
    ? ended.error
    : new LimitReachedError(reason, limits[limitFields[reason]] ?? 0);
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
          const error = new LimitReachedError('time_limit', milliseconds);
          agent.trajectory.stopReason ??= error.reason;
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
  if (ended.status === 'threw' && isLimitError(ended.error)) return ended.error.reason;
  return isUsedUpLimit(stopReason) ? stopReason : undefined;
}

function isLimitError(error: unknown): error is LimitReachedError {
  return error instanceof LimitReachedError;
}

function isUsedUpLimit(reason: string | null): reason is UsedUpLimit {
  return reason !== null && Object.hasOwn(limitFields, reason);
}
