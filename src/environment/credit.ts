import {
  isSendableReward,
  sendableRewards,
  type Trajectory,
  type TrajectoryCall,
} from '../trajectory/index.ts';
import { sumOf } from '../util/sums.ts';
import { EnvironmentError } from './errors.ts';
import { callReward, checkNumbers, type RewardError } from './rewards/call-reward.ts';

export interface CreditContext<Scenario, Outcome> {
  scenario: Scenario;
  outcome: Outcome;
  trajectory: Trajectory;
  /** The seat whose calls these are. Absent in an environment with one agent. */
  seat?: string | undefined;
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
 * A function returns one number for each of `calls`, from -1e9 to 1e9.
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
  const { calls, reward } = context;
  const values =
    typeof credit === 'function'
      ? await callReward(credit, context, { timeoutMs, toError: toCreditError })
      : discountedReturns(calls, reward, credit.discount);
  const indices = calls.map(({ index }) => index);
  checkNumbers(values, { noun: 'call', indices, toError: toCreditError });
  const refused = values.findIndex((value) => !isSendableReward(value));
  if (refused >= 0) {
    const what = `gives ${values[refused]} to call ${indices[refused]}, and a credit must be ${sendableRewards}`;
    throw toCreditError('failed', what);
  }
  return new Map(indices.map((index, at) => [index, values[at] ?? 0]));
}

const toCreditError: RewardError = (how, what, cause) =>
  new EnvironmentError(`credit_${how}`, `\`credit\` ${what}. The rollout counts as failed.`, { cause });

function discountedReturns(calls: readonly TrajectoryCall[], reward: number, discount: number): number[] {
  const steps = calls.map((call) => call.reward);
  const rest = reward - sumOf(steps);
  const returns: number[] = [];
  let after = rest;
  for (const [at, step] of steps.toReversed().entries()) {
    after = at === 0 ? step + rest : step + discount * after;
    returns.push(after);
  }
  return returns.toReversed();
}
