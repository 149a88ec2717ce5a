import {
  LimitReachedError,
  type LimitReason,
  type RolloutLimits,
  type Trajectory,
} from '../trajectory/index.ts';
import { startTimer } from './deadline.ts';
import { describeThrown } from './describe-thrown.ts';
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
 * the limit's error.
 * @throws what the agent threw, LimitReachedError, UnexpectedCallError also where the agent swallowed it.
 */
export async function runAgent<Outcome>(options: RunAgentOptions<Outcome>): Promise<Outcome> {
  const { opened, agent, limits } = options;
  const { trajectory } = agent;
  const ended = await untilEnd(options);
  // A swallowed error is still an error: the conversation went on without what the policy would have said.
  if (trajectory.violation) throw trajectory.violation;
  const reason = limitOf(ended, trajectory);
  if (reason === undefined) {
    if (ended.status === 'threw') throw ended.error;
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
    return { status: 'returned', outcome: await Promise.race([opened.rollout(agent), timeUp]) };
  } catch (error) {
    return { status: 'threw', error };
  } finally {
    timer?.clear();
  }
}

const limitFields: Record<LimitReason, keyof RolloutLimits> = {
  turn_limit: 'turns',
  token_limit: 'tokens',
  tool_call_limit: 'toolCalls',
  time_limit: 'milliseconds',
};

function limitOf<Outcome>(ended: Ended<Outcome>, { stopReason }: Trajectory): LimitReason | undefined {
  if (ended.status === 'threw' && isLimitError(ended.error)) return ended.error.reason;
  return isLimitReason(stopReason) ? stopReason : undefined;
}

function isLimitError(error: unknown): error is LimitReachedError {
  return error instanceof LimitReachedError;
}

function isLimitReason(reason: string | null): reason is LimitReason {
  return reason !== null && Object.hasOwn(limitFields, reason);
}
