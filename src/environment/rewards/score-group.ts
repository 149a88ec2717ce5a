import { attribute, genAi, recordReward, spanName, withSpan } from '../../telemetry/index.ts';
import { withDeadline } from '../../util/deadline.ts';
import { describeThrown, describeValue } from '../describe-thrown.ts';
import { GroupRewardError } from './errors.ts';
import type { GroupRewardContext, GroupRewardFunction, GroupRewards, WeightedGroupReward } from './reward.ts';

/** Group rewards as they are computed: each with its weight, in the order of definition. */
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
 * Computes every group reward in the order of definition, writes each member's value to its trajectory's metrics, and
 * returns each member's weighted sum.
 * @param timeoutMs Deadline of each group reward in milliseconds.
 * @throws GroupRewardError with the name of the first that failed; the reason of `context.signal` where that ended it.
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
      evaluate(name, reward, context, timeoutMs),
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

async function evaluate<Scenario, Outcome>(
  name: string,
  reward: GroupRewardFunction<Scenario, Outcome>,
  context: GroupRewardContext<Scenario, Outcome>,
  timeoutMs: number,
): Promise<readonly number[]> {
  const { members, signal } = context;
  const timedOut = new GroupRewardError(
    name,
    `took longer than ${timeoutMs} ms; raise \`rewardTimeoutMs\`, or find what it waits for`,
    { how: 'timeout' },
  );
  let values: readonly number[];
  try {
    values = await withDeadline({ timeoutMs, signal, timedOut: () => timedOut }, async (ownSignal) =>
      reward({ ...context, signal: ownSignal }),
    );
  } catch (error) {
    if (error === timedOut || signal.aborted) throw error;
    throw new GroupRewardError(name, `threw: ${describeThrown(error)}`, { cause: error });
  }
  if (!Array.isArray(values) || values.length !== members.length) {
    const given = Array.isArray(values) ? `${values.length} numbers` : describeThrown(values);
    throw new GroupRewardError(name, `gave ${given} for ${members.length} members; give one number for each`);
  }
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) {
    const given = describeValue(values[wrong]);
    throw new GroupRewardError(name, `gave ${given} for member ${wrong}, not a finite number`);
  }
  return values;
}
