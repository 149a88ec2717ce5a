import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import type { Trajectory } from '../trajectory/index.ts';

export interface RolloutContext<Scenario> {
  scenario: Scenario;
  /** The policy, pinned to one checkpoint: hand `model.languageModel` to the agent. */
  model: ModelHandle;
  /** The record of this rollout: write `metrics`, `metadata` and `logs` here. */
  trajectory: Trajectory;
  /** Aborted when the deadline passes, when the run is stopped, and at last when the rollout has ended. */
  signal: AbortSignal;
  /** Unsigned 32-bit integer: the seed of whatever this rollout draws at random. */
  seed: number;
}

export interface RewardContext<Scenario, Outcome> {
  scenario: Scenario;
  /** What the rollout function returned. */
  outcome: Outcome;
  trajectory: Trajectory;
  signal: AbortSignal;
}

/** Scores a rollout. Must give a finite number; a throw makes the rollout failed, never a reward of 0. */
export type RewardFunction<Scenario, Outcome> = (
  context: RewardContext<Scenario, Outcome>,
) => number | Promise<number>;

export interface WeightedReward<Scenario, Outcome> {
  /** Its share in the sum. 0: a metric, which is followed and not trained on. */
  weight: number;
  reward: RewardFunction<Scenario, Outcome>;
}

export interface EnvironmentOptions<Schema extends z.ZodType, Outcome> {
  /** Names the run directory and the spans. */
  name: string;
  /** Schema of a scenario; each is parsed once, before its first rollout. */
  scenario: Schema;
  /** Runs the agent once. What it returns is given to the rewards. */
  rollout: (context: RolloutContext<z.output<Schema>>) => Promise<Outcome> | Outcome;
  /**
   * The reward is the sum of weight times value; a plain function weighs 1. Each value also becomes a metric of the
   * trajectory, under its name here. Call one `success` and reports show its mean.
   */
  rewards: Record<
    string,
    RewardFunction<z.output<Schema>, Outcome> | WeightedReward<z.output<Schema>, Outcome>
  >;
}

/** Scenarios, what an agent does in one, and how that is scored. */
export interface Environment<Schema extends z.ZodType = z.ZodType, Outcome = unknown> {
  readonly name: string;
  readonly scenario: Schema;
  readonly rollout: EnvironmentOptions<Schema, Outcome>['rollout'];
  readonly rewards: ReadonlyMap<string, WeightedReward<z.output<Schema>, Outcome>>;
}

/**
 * Defines an environment. The types of scenario and outcome follow from the schema and the rollout function.
 *
 *     const environment = defineEnvironment({
 *       name: 'sums',
 *       scenario: z.object({ a: z.number(), b: z.number() }),
 *       rollout: async ({ scenario, model, signal }) => {
 *         const { text } = await generateText({
 *           model: model.languageModel, prompt: `${scenario.a} + ${scenario.b} =`, abortSignal: signal,
 *         });
 *         return text.trim();
 *       },
 *       rewards: { correct: ({ scenario, outcome }) => Number(outcome === String(scenario.a + scenario.b)) },
 *     });
 *
 * @throws TypeError for a weight that is not a finite number, or where no reward has a weight other than 0.
 */
export function defineEnvironment<Schema extends z.ZodType, Outcome>(
  options: EnvironmentOptions<Schema, Outcome>,
): Environment<Schema, Outcome> {
  const rewards = new Map<string, WeightedReward<z.output<Schema>, Outcome>>();
  for (const [name, given] of Object.entries(options.rewards)) {
    const reward = typeof given === 'function' ? { weight: 1, reward: given } : given;
    if (!Number.isFinite(reward.weight)) {
      throw new TypeError(`The weight of reward "${name}" is ${reward.weight}; give a finite number.`);
    }
    rewards.set(name, reward);
  }
  if (![...rewards.values()].some(({ weight }) => weight !== 0)) {
    throw new TypeError(
      `Environment "${options.name}" has no reward with a weight other than 0: nothing to learn from.`,
    );
  }
  return { name: options.name, scenario: options.scenario, rollout: options.rollout, rewards };
}
