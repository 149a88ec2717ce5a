import type { RolloutGroup } from '../rollout/index.ts';

/** What a run may use; it ends cleanly after the step in which one of these is used up. */
export interface RunBudget {
  /** Prompt and sampled tokens of all rollouts, of steps and of validations. */
  tokens?: number;
  /** In the unit of `prices`, which it needs. */
  cost?: number;
  /** Wall-clock minutes, those before a resume included. */
  minutes?: number;
}

/** Prices of a million tokens, all in the same unit of your choice. */
export interface TokenPrices {
  promptTokensPerMillion: number;
  sampledTokensPerMillion: number;
}

export interface TokenUsage {
  promptTokens: number;
  sampledTokens: number;
}

/** Tokens of every rollout, completed or not: a service bills them all. */
export function usageOf(groups: readonly RolloutGroup[]): TokenUsage {
  return sumUsage(groups.flatMap(({ rollouts }) => rollouts.map(({ trajectory }) => trajectory)));
}

/** Null without prices. */
export function costOf(
  { promptTokens, sampledTokens }: TokenUsage,
  prices: TokenPrices | undefined,
): number | null {
  if (!prices) return null;
  const { promptTokensPerMillion, sampledTokensPerMillion } = prices;
  return (promptTokens * promptTokensPerMillion + sampledTokens * sampledTokensPerMillion) / 1e6;
}

export function sumUsage(usages: Iterable<TokenUsage>): TokenUsage {
  const sum: TokenUsage = { promptTokens: 0, sampledTokens: 0 };
  for (const { promptTokens, sampledTokens } of usages) {
    sum.promptTokens += promptTokens;
    sum.sampledTokens += sampledTokens;
  }
  return sum;
}

/** What is used up, for people; null while nothing is. */
export function usedUp(
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
