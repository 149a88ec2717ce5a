import type { Span } from '@opentelemetry/api';
import { attribute, genAi, recordReward, spanName, withSpan } from '../../telemetry/index.ts';
import { isSendableReward, sendableRewards, type Trajectory } from '../../trajectory/index.ts';
import { EnvironmentError } from '../errors.ts';
import { stepRewardMetric } from '../metrics.ts';
import { callReward, checkNumbers, noNumber, type RewardError } from './call-reward.ts';
import type { GroupRewardContext, GroupRewardFunction, RewardContext, RewardFunction } from './reward.ts';

/** Rewards by name, in the order of definition. */
export type WeightedRewards<Reward> = ReadonlyMap<string, { weight: number; reward: Reward }>;

/** The rewards with their weights. A plain function has weight 1. */
export function withWeights<Reward extends (context: never) => unknown>(
  rewards: Readonly<Record<string, Reward | { weight: number; reward: Reward }>>,
): WeightedRewards<Reward> {
  return new Map(
    Object.entries(rewards).map(([name, reward]) => [
      name,
      typeof reward === 'function' ? { weight: 1, reward } : reward,
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
  rewards: WeightedRewards<RewardFunction<Scenario, Outcome, State>>,
  context: RewardContext<Scenario, Outcome, State>,
  { timeoutMs = Number.POSITIVE_INFINITY }: { timeoutMs?: number } = {},
): Promise<number> {
  const { trajectory } = context;
  let [sum = 0] = await sumRewards(rewards, [trajectory], async (name, reward, span) => {
    const toError: RewardError = (how, what, cause) =>
      new EnvironmentError(`reward_${how}`, `The reward "${name}" ${what}. The rollout counts as failed.`, {
        part: name,
        cause,
      });
    const value = await callReward(reward, context, { timeoutMs, toError });
    if (!Number.isFinite(value)) throw toError('failed', noNumber(value));
    span.setAttribute(genAi.evaluationScore, value);
    return [value];
  });
  // Read last: rewards may set step rewards too.
  const { stepReward } = trajectory;
  if (stepReward !== undefined) {
    trajectory.metrics[stepRewardMetric] = stepReward;
    sum += stepReward;
  }
  if (isSendableReward(sum)) return sum;
  const [largest, share] = largestShare(rewards, trajectory);
  throw new EnvironmentError(
    'reward_failed',
    `The rewards add up to ${sum}, of which "${largest}" gives ${share}. A rollout's reward must be ${sendableRewards}: ` +
      'scale the reward down, or give it a smaller weight. The rollout counts as failed.',
    { part: largest },
  );
}

/** The name of the reward that changes the sum most, and its part of the sum. */
function largestShare<Reward>(
  rewards: WeightedRewards<Reward>,
  { metrics, stepReward = 0 }: Trajectory,
): [name: string, share: number] {
  const shares = [...rewards].map(([name, { weight }]): [string, number] => [
    name,
    weight * Number(metrics[name] ?? 0),
  ]);
  return shares.reduce(
    (largest, share) => (Math.abs(share[1]) > Math.abs(largest[1]) ? share : largest),
    [stepRewardMetric, stepReward],
  );
}

/**
 * Computes the group rewards in the order of definition, writes each member's value to its trajectory's metrics, and
 * returns each member's weighted sum.
 * @param timeoutMs Deadline of each group reward in milliseconds.
 * @throws EnvironmentError (`group_reward_failed`, `group_reward_timeout`) for the first group reward that fails; the
 * reason of `context.signal` if it was aborted.
 */
export function scoreGroup<Scenario, Outcome>(
  rewards: WeightedRewards<GroupRewardFunction<Scenario, Outcome>>,
  context: GroupRewardContext<Scenario, Outcome>,
  { timeoutMs }: { timeoutMs: number },
): Promise<number[]> {
  const trajectories = context.members.map(({ trajectory }) => trajectory);
  return sumRewards(rewards, trajectories, async (name, reward) => {
    const toError: RewardError = (how, what, cause) =>
      new EnvironmentError(
        `group_reward_${how}`,
        `The group reward "${name}" ${what}. The group's completed rollouts count as failed.`,
        { part: name, cause },
      );
    const values = await callReward(reward, context, { timeoutMs, toError });
    checkNumbers(values, { noun: 'member', indices: [...trajectories.keys()], toError });
    return values;
  });
}

/** Computes the rewards one after the other, each in a span, and returns the weighted sum of each trajectory. */
async function sumRewards<Reward>(
  rewards: WeightedRewards<Reward>,
  trajectories: readonly Trajectory[],
  compute: (name: string, reward: Reward, span: Span) => Promise<readonly number[]>,
): Promise<number[]> {
  const sums = trajectories.map(() => 0);
  for (const [name, { weight, reward }] of rewards) {
    const attributes = { [attribute.rewardName]: name, [genAi.evaluationName]: name };
    const values = await withSpan(spanName.reward, attributes, (span) => compute(name, reward, span));
    for (const [at, { metrics }] of trajectories.entries()) {
      const value = values[at] ?? 0;
      recordReward({ name, value });
      metrics[name] = value;
      if (weight !== 0) sums[at] = (sums[at] ?? 0) + weight * value;
    }
  }
  return sums;
}
