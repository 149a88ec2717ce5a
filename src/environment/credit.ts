import type { Trajectory, TrajectoryCall } from '../trajectory/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { EnvironmentError } from './errors.ts';
import { describeThrown, describeValue } from './thrown.ts';

export interface CreditContext<Scenario, Outcome> {
  scenario: Scenario;
  outcome: Outcome;
  trajectory: Trajectory;
  /** The recorded calls in the order of their start, each with its step reward. */
  calls: readonly TrajectoryCall[];
  /** The trajectory's total reward: weighted rewards, group rewards and step rewards. */
  reward: number;
  signal: AbortSignal;
}

/**
 * A reward for each recorded call, in place of its trajectory's reward.
 *
 * `{ discount }` gives the discounted return G_i = r_i + discount * G_(i+1) over the calls in the order of their start
 * (Sutton and Barto, Reinforcement Learning, 2nd edition, equation 3.9). r_i is the call's step reward; the last call
 * also gets the rest of the trajectory's reward. With 0 a call gets its own reward only, with 1 also the rewards of all
 * later calls.
 *
 * A function returns one finite number for each of `calls`.
 */
export type Credit<Scenario, Outcome> =
  | { discount: number }
  | ((context: CreditContext<Scenario, Outcome>) => readonly number[] | PromiseLike<readonly number[]>);

/**
 * The credit of each call, by the call's index.
 * @throws EnvironmentError (`credit_failed`, `credit_timeout`); the reason of `context.signal` if it was aborted.
 */
export async function creditOf<Scenario, Outcome>(
  credit: Credit<Scenario, Outcome>,
  context: CreditContext<Scenario, Outcome>,
  { timeoutMs }: { timeoutMs: number },
): Promise<Map<number, number>> {
  const { calls } = context;
  const values =
    typeof credit === 'function'
      ? await given(credit, context, timeoutMs)
      : discountedReturns(calls, context.reward, credit.discount);
  if (!Array.isArray(values) || values.length !== calls.length) {
    const what = Array.isArray(values) ? `${values.length} numbers` : describeThrown(values);
    throw creditError('failed', `gave ${what} for ${calls.length} calls; give one number for each`);
  }
  const credited = new Map<number, number>();
  for (const [at, { index }] of calls.entries()) {
    const value = values[at];
    if (!Number.isFinite(value))
      throw creditError('failed', `gave ${describeValue(value)} for call ${index}, not a finite number`);
    credited.set(index, value);
  }
  return credited;
}

async function given<Scenario, Outcome>(
  credit: Extract<Credit<Scenario, Outcome>, (context: never) => unknown>,
  context: CreditContext<Scenario, Outcome>,
  timeoutMs: number,
): Promise<readonly number[]> {
  const { signal } = context;
  const timedOut = creditError('timeout', `took longer than ${timeoutMs} ms; raise \`rewardTimeoutMs\``);
  try {
    return await withDeadline({ timeoutMs, signal, timedOut: () => timedOut }, async (ownSignal) =>
      credit({ ...context, signal: ownSignal }),
    );
  } catch (error) {
    if (error === timedOut || signal.aborted) throw error;
    throw creditError('failed', `threw: ${describeThrown(error)}`, error);
  }
}

function discountedReturns(calls: readonly TrajectoryCall[], reward: number, discount: number): number[] {
  const steps = calls.map((call) => call.reward);
  const rest = reward - steps.reduce((sum, step) => sum + step, 0);
  const returns: number[] = [];
  let after = rest;
  for (const [at, step] of steps.toReversed().entries()) {
    after = at === 0 ? step + rest : step + discount * after;
    returns.push(after);
  }
  return returns.toReversed();
}

function creditError(how: 'failed' | 'timeout', what: string, cause?: unknown): EnvironmentError {
  return new EnvironmentError(`credit_${how}`, `\`credit\` ${what}. The rollout counts as failed.`, {
    cause,
  });
}
