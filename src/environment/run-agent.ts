import { APICallError } from '@ai-sdk/provider';
import { isRequestError } from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { isPromptTooLong } from '../model/index.ts';
import {
  isLimitReached,
  limitFields,
  limitReached,
  type RolloutLimits,
  type Trajectory,
  type UsedUpLimit,
} from '../trajectory/index.ts';
import { startTimer } from '../util/deadline.ts';
import type { AgentContext, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import { codeOfThrown, describeThrown, errorsWithin } from './thrown.ts';

interface RunAgentOptions<Outcome> {
  opened: OpenEnvironment<Outcome>;
  agent: AgentContext;
  /** Controls `agent.signal`; aborted at the time limit. */
  controller: AbortController;
  limits: RolloutLimits;
}

/**
 * Runs the agent until it returns, throws or reaches its time limit, and returns its outcome. If a limit ended the
 * agent, `atLimit` gives the outcome; without `atLimit` it is what the agent returned, or the limit's error if it
 * threw. If the agent threw for another reason, `onError` may give an outcome.
 * @throws the agent's error, EnvironmentError (`on_error_failed`), and the TrajectoryError of a limit or an unexpected
 * call, even if the agent caught it.
 */
export async function runAgent<Outcome>(options: RunAgentOptions<Outcome>): Promise<Outcome> {
  const { opened, agent, limits } = options;
  const { trajectory } = agent;
  const all = trajectoriesOf(agent);
  const ended = await runToEnd(options);
  // The agent may have caught this error, but its conversation continued without a reply of the policy.
  throwViolation(all);
  const reason = limitOf(ended, all);
  if (reason === undefined) {
    if (ended.status === 'threw') return await outcomeOfError(options, ended.error);
    return ended.outcome;
  }
  for (const one of all) one.stopReason ??= reason;
  if (ended.status === 'threw' && !isLimitReached(ended.error))
    trajectory.logs.push(`After the ${reason} the agent threw: ${describeThrown(ended.error)}`);
  if (opened.atLimit) return await opened.atLimit({ ...agent, reason });
  if (ended.status === 'returned') return ended.outcome;
  throw isLimitReached(ended.error) ? ended.error : limitReached(reason, limits[limitFields[reason]] ?? 0);
}

/** The records of all agents of a rollout. */
const trajectoriesOf = ({ trajectory, seats }: AgentContext): Trajectory[] =>
  seats ? Object.values(seats).map((seat) => seat.trajectory) : [trajectory];

function throwViolation(trajectories: readonly Trajectory[]): void {
  for (const { violation } of trajectories) if (violation) throw violation;
}

/** The outcome that `onError` or `atLimit` gives for an error of the agent. @throws the error if there is none. */
async function outcomeOfError<Outcome>(
  { opened, agent }: RunAgentOptions<Outcome>,
  error: unknown,
): Promise<Outcome> {
  const { signal } = agent;
  const all = trajectoriesOf(agent);
  const origin = originOf(error, all);
  if (origin === 'outside' || signal.aborted) throw error;
  const isAtContextEnd = origin === 'context_limit';
  const stopReason = isAtContextEnd ? origin : `error:${codeOfThrown(error).slice(0, maxCodeLength)}`;
  const result = await opened.onError?.({ ...agent, error, stopReason, isAtContextEnd });
  // `onError` may have called a model too.
  throwViolation(all);
  if (!result) throw error;
  for (const one of all) one.stopReason ??= stopReason;
  return result.outcome;
}

type AgentEnd<Outcome> = { status: 'returned'; outcome: Outcome } | { status: 'threw'; error: unknown };

async function runToEnd<Outcome>({
  opened,
  agent,
  controller,
  limits: { milliseconds },
}: RunAgentOptions<Outcome>): Promise<AgentEnd<Outcome>> {
  let timer: ReturnType<typeof startTimer> | undefined;
  /** Rejects when the time is up. */
  const atTimeLimit = (limitMs: number): Promise<never> => {
    const { promise, reject } = Promise.withResolvers<never>();
    timer = startTimer(limitMs - agent.trajectory.usage.milliseconds, () => {
      const error = limitReached('time_limit', limitMs);
      for (const one of trajectoriesOf(agent)) one.stopReason ??= error.code;
      reject(error);
      controller.abort(error);
    });
    return promise;
  };
  try {
    const timeUp = milliseconds === undefined ? undefined : atTimeLimit(milliseconds);
    const running = opened.rollout(agent);
    const outcome = await (timeUp ? Promise.race([running, timeUp]) : running);
    for (const { observations } of trajectoriesOf(agent)) observations.endAgent();
    return { status: 'returned', outcome };
  } catch (error) {
    return { status: 'threw', error };
  } finally {
    timer?.clear();
  }
}

/** Maximum length of an error code in a stop reason, in characters: reports count rollouts by stop reason. */
const maxCodeLength = 100;

function limitOf<Outcome>(
  ended: AgentEnd<Outcome>,
  trajectories: readonly Trajectory[],
): UsedUpLimit | undefined {
  if (ended.status === 'threw' && isLimitReached(ended.error)) return ended.error.code;
  return trajectories.map(({ stopReason }) => stopReason).find(isUsedUpLimit);
}

function isUsedUpLimit(reason: string | null): reason is UsedUpLimit {
  return reason !== null && Object.hasOwn(limitFields, reason);
}

/**
 * Where an agent's error comes from.
 *
 * - `agent`: the policy may have caused it; `onError` is called.
 * - `context_limit`: the conversation has reached the end of the model's context.
 * - `outside`: something else failed. The rollout fails and gets no reward.
 */
type ErrorOrigin = 'agent' | 'context_limit' | 'outside';

/**
 * Where the error of an agent comes from. It is `outside`, whatever the agent threw, if a model call of the rollout got
 * no answer and was not repeated with success. It is `outside` too if the error or one of its causes is martingale's own
 * (a failed judge, a call after the rollout's end) or a provider's failed call.
 */
function originOf(error: unknown, trajectories: readonly Trajectory[]): ErrorOrigin {
  if (trajectories.some(({ observations }) => observations.unansweredCalls.length > 0)) return 'outside';
  const isAtContextEnd = trajectories.some(({ observations }) => observations.isAtContextEnd);
  const kinds = errorsWithin(error).map((within) => kindOf(within, isAtContextEnd));
  if (kinds.includes('outside')) return 'outside';
  return isAtContextEnd || kinds.includes('context_limit') ? 'context_limit' : 'agent';
}

function kindOf(error: unknown, isAtContextEnd: boolean): ErrorOrigin {
  try {
    // Each provider refuses a long prompt with its own error. `isAtContextEnd` excludes other models, such as a tool's.
    if (isRequestError(error, 'context_length_exceeded') || (isAtContextEnd && isPromptTooLong(error)))
      return 'context_limit';
    if (error instanceof EnvironmentError && error.code === 'tool_failed') return 'agent';
    return MartingaleError.isInstance(error) || APICallError.isInstance(error) ? 'outside' : 'agent';
  } catch {
    // A proxy that cannot be inspected is not one of these errors.
    return 'agent';
  }
}
