import type { TokenUsage } from '../evaluation/index.ts';
import { type RolloutGroup, trajectoriesOf } from '../rollout/index.ts';

/** Limits of a run. The run ends cleanly after the step in which one of them is reached. */
export interface RunBudget {
  /**
   * Prompt and sampled tokens of all rollouts, in steps and validations.
   *
   * @default no limit
   * @example 10_000_000
   */
  tokens?: number;
  /**
   * Cost of these tokens, in the unit of `prices`, which must be set.
   *
   * @default no limit
   * @example 20
   */
  cost?: number;
  /**
   * Wall-clock minutes, including those before a resume.
   *
   * @default no limit
   * @example 30
   */
  minutes?: number;
}

/** Tokens of all rollouts, completed or not, because a service bills them all. */
export function usageOf(groups: readonly RolloutGroup[]): TokenUsage {
  return sumUsage(groups.flatMap(({ rollouts }) => rollouts.flatMap(trajectoriesOf)));
}

export function sumUsage(usages: Iterable<TokenUsage>): TokenUsage {
  const sum: TokenUsage = { promptTokens: 0, sampledTokens: 0 };
  for (const { promptTokens, sampledTokens } of usages) {
    sum.promptTokens += promptTokens;
    sum.sampledTokens += sampledTokens;
  }
  return sum;
}

/** Says which limit is reached, as text; null if none is. */
export function reachedLimit(
  budget: RunBudget,
  { usage, cost, seconds }: { usage: TokenUsage; cost: number | null; seconds: number },
): string | null {
  const tokens = usage.promptTokens + usage.sampledTokens;
  if (budget.tokens !== undefined && tokens >= budget.tokens)
    return `${tokens} of ${budget.tokens} tokens are used`;
  if (budget.cost !== undefined && cost !== null && cost >= budget.cost)
    return `${cost} of a cost of ${budget.cost} is used`;
  if (budget.minutes !== undefined && seconds >= budget.minutes * 60)
    return `${Number((seconds / 60).toPrecision(3))} of ${budget.minutes} minutes are used`;
  return null;
}
