import { MartingaleError } from '../contract/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import type { RewardContext, WeightedReward } from './environment.ts';

/** A reward function threw, or gave something other than a finite number. `cause` is what it threw. */
export class RewardError extends MartingaleError {
  readonly reward: string;

  constructor(reward: string, what: string, options?: ErrorOptions) {
    super('reward_failed', `The reward "${reward}" ${what}. The rollout counts as failed.`, options);
    this.reward = reward;
  }
}

/**
 * Computes every reward in the order of definition, writes each value to the trajectory's metrics, and returns their
 * weighted sum.
 * @throws RewardError with the name of the first reward that failed.
 */
export async function score<Scenario, Outcome>(
  rewards: ReadonlyMap<string, WeightedReward<Scenario, Outcome>>,
  context: RewardContext<Scenario, Outcome>,
): Promise<number> {
  let sum = 0;
  for (const [name, { weight, reward }] of rewards) {
    const value = await withSpan(spanName.reward, { [attribute.rewardName]: name }, () =>
      evaluate(name, reward, context),
    );
    context.trajectory.metrics[name] = value;
    if (weight !== 0) sum += weight * value;
  }
  return sum;
}

async function evaluate<Scenario, Outcome>(
  name: string,
  reward: WeightedReward<Scenario, Outcome>['reward'],
  context: RewardContext<Scenario, Outcome>,
): Promise<number> {
  let value: number;
  try {
    value = await reward(context);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new RewardError(name, `threw: ${message}`, { cause: error });
  }
  if (!Number.isFinite(value)) throw new RewardError(name, `gave ${String(value)}, not a finite number`);
  return value;
}
