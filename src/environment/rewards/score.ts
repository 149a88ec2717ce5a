import { attribute, genAi, recordReward, spanName, withSpan } from '../../telemetry/index.ts';
import { withDeadline } from '../../util/deadline.ts';
import { EnvironmentError, type EnvironmentErrorCode } from '../errors.ts';
import { stepRewardMetric } from '../metrics.ts';
import { describeThrown, describeValue } from '../thrown.ts';
import type {
  GroupRewardContext,
  GroupRewardFunction,
  GroupRewards,
  RewardContext,
  RewardFunction,
  Rewards,
  WeightedGroupReward,
  WeightedReward,
} from './reward.ts';

/** Each reward with its weight, in the order of definition. */
export function weigh<Scenario, Outcome, State>(
  rewards: Rewards<Scenario, Outcome, State>,
): Map<string, WeightedReward<Scenario, Outcome, State>> {
  return new Map(
    Object.entries(rewards).map(([name, given]) => [
      name,
      typeof given === 'function' ? { weight: 1, reward: given } : given,
    ]),
  );
}

/**
 * Computes the rewards in the order of definition, writes each value to the trajectory's metrics, and returns their
 * weighted sum plus the sum of the step rewards.
 * @param timeoutMs Deadline of each reward in milliseconds. Default: none.
 * @throws EnvironmentError (`reward_failed`, `reward_timeout`) for the first reward that fails; the reason of
 * `context.signal` if it was aborted.
 */
export async function score<Scenario, Outcome, State>(
  rewards: ReadonlyMap<string, WeightedReward<Scenario, Outcome, State>>,
  context: RewardContext<Scenario, Outcome, State>,
  { timeoutMs = Number.POSITIVE_INFINITY }: { timeoutMs?: number } = {},
): Promise<number> {
  const { trajectory } = context;
  let sum = 0;
  for (const [name, { weight, reward }] of rewards) {
    const attributes = { [attribute.rewardName]: name, [genAi.evaluationName]: name };
    const value = await withSpan(spanName.reward, attributes, async (span) => {
      const found = await evaluate(name, reward, context, timeoutMs);
      span.setAttribute(genAi.evaluationScore, found);
      return found;
    });
    recordReward({ name, value });
    trajectory.metrics[name] = value;
    if (weight !== 0) sum += weight * value;
  }
  // Read last: rewards may set step rewards too.
  const { stepReward } = trajectory;
  if (stepReward !== undefined) {
    trajectory.metrics[stepRewardMetric] = stepReward;
    sum += stepReward;
  }
  if (!Number.isFinite(sum))
    throw new EnvironmentError(
      'reward_failed',
      `The weighted sum of the rewards is ${sum}. Scale the rewards or their weights down.`,
    );
  return sum;
}

async function evaluate<Scenario, Outcome, State>(
  name: string,
  reward: RewardFunction<Scenario, Outcome, State>,
  context: RewardContext<Scenario, Outcome, State>,
  timeoutMs: number,
): Promise<number> {
  const { signal } = context;
  // Created on timeout only: its stack trace costs more than most rewards do.
  let timedOut: EnvironmentError | undefined;
  const onTimeout = () => {
    const what = `took longer than ${timeoutMs} ms; raise \`rewardTimeoutMs\`, or find what it waits for`;
    timedOut = rewardError('reward_timeout', name, what);
    return timedOut;
  };
  let value: number;
  try {
    value = await withDeadline({ timeoutMs, signal, timedOut: onTimeout }, async (ownSignal) =>
      reward({ ...context, signal: ownSignal }),
    );
  } catch (error) {
    if ((timedOut && error === timedOut) || signal.aborted) throw error;
    throw rewardError('reward_failed', name, `threw: ${describeThrown(error)}`, error);
  }
  if (!Number.isFinite(value))
    throw rewardError('reward_failed', name, `gave ${describeValue(value)}, not a finite number`);
  return value;
}

/** Each group reward with its weight, in the order of definition. */
export function weighGroupRewards<Scenario, Outcome>(
  rewards: GroupRewards<Scenario, Outcome>,
): Map<string, WeightedGroupReward<Scenario, Outcome>> {
  return new Map(
    Object.entries(rewards).map(([name, given]) => [
      name,
      typeof given === 'function' ? { weight: 1, reward: given } : given,
    ]),
  );
}

/**
 * Computes the group rewards in the order of definition, writes each member's value to its trajectory's metrics, and
 * returns each member's weighted sum.
 * @param timeoutMs Deadline of each group reward in milliseconds.
 * @throws EnvironmentError (`group_reward_failed`, `group_reward_timeout`) for the first group reward that fails; the
 * reason of `context.signal` if it was aborted.
 */
export async function scoreGroup<Scenario, Outcome>(
  rewards: ReadonlyMap<string, WeightedGroupReward<Scenario, Outcome>>,
  context: GroupRewardContext<Scenario, Outcome>,
  { timeoutMs }: { timeoutMs: number },
): Promise<number[]> {
  const sums = context.members.map(() => 0);
  for (const [name, { weight, reward }] of rewards) {
    const attributes = { [attribute.rewardName]: name, [genAi.evaluationName]: name };
    const values = await withSpan(spanName.reward, attributes, () =>
      evaluateGroup(name, reward, context, timeoutMs),
    );
    for (const [at, { trajectory }] of context.members.entries()) {
      const value = values[at] ?? 0;
      recordReward({ name, value });
      trajectory.metrics[name] = value;
      if (weight !== 0) sums[at] = (sums[at] ?? 0) + weight * value;
    }
  }
  return sums;
}

async function evaluateGroup<Scenario, Outcome>(
  name: string,
  reward: GroupRewardFunction<Scenario, Outcome>,
  context: GroupRewardContext<Scenario, Outcome>,
  timeoutMs: number,
): Promise<readonly number[]> {
  const { members, signal } = context;
  const timedOut = rewardError(
    'group_reward_timeout',
    name,
    `took longer than ${timeoutMs} ms; raise \`rewardTimeoutMs\`, or find what it waits for`,
  );
  let values: readonly number[];
  try {
    values = await withDeadline({ timeoutMs, signal, timedOut: () => timedOut }, async (ownSignal) =>
      reward({ ...context, signal: ownSignal }),
    );
  } catch (error) {
    if (error === timedOut || signal.aborted) throw error;
    throw rewardError('group_reward_failed', name, `threw: ${describeThrown(error)}`, error);
  }
  if (!Array.isArray(values) || values.length !== members.length) {
    const given = Array.isArray(values) ? `${values.length} numbers` : describeThrown(values);
    throw rewardError(
      'group_reward_failed',
      name,
      `gave ${given} for ${members.length} members; give one number for each`,
    );
  }
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) {
    const given = describeValue(values[wrong]);
    throw rewardError('group_reward_failed', name, `gave ${given} for member ${wrong}, not a finite number`);
  }
  return values;
}

type RewardErrorCode = Extract<EnvironmentErrorCode, `${string}reward_${string}`>;

function rewardError(code: RewardErrorCode, name: string, what: string, cause?: unknown): EnvironmentError {
  const [kind, lost] = code.startsWith('group')
    ? ['group reward', "The group's completed rollouts count as failed."]
    : ['reward', 'The rollout counts as failed.'];
  return new EnvironmentError(code, `The ${kind} "${name}" ${what}. ${lost}`, { part: name, cause });
}
