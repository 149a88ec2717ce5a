import { z } from 'zod';
import type { Rollout } from '../rollout/index.ts';
import { invalidOption, type OptionErrorCode } from '../util/option-error.ts';
import type { OptionNames } from '../util/option-names.ts';

/** Prices per million tokens, all in one unit of your choice. */
export interface TokenPrices {
  promptTokensPerMillion: number;
  sampledTokensPerMillion: number;
}

export interface TokenUsage {
  promptTokens: number;
  sampledTokens: number;
}

export const priceNames = {
  promptTokensPerMillion: true,
  sampledTokensPerMillion: true,
} satisfies OptionNames<TokenPrices>;

/** The prices of a stored evaluation. */
export const pricesSchema = z.object({
  promptTokensPerMillion: z.number().min(0),
  sampledTokensPerMillion: z.number().min(0),
});

/** Cost in the unit of `prices`; null without prices. */
export function costOf(
  { promptTokens, sampledTokens }: TokenUsage,
  prices: TokenPrices | undefined,
): number | null {
  if (!prices) return null;
  const { promptTokensPerMillion, sampledTokensPerMillion } = prices;
  return (promptTokens * promptTokensPerMillion + sampledTokens * sampledTokensPerMillion) / 1e6;
}

/** @throws OptionError for a price that is missing or below 0. */
export function checkPrices(code: OptionErrorCode, prices: Partial<TokenPrices> | undefined): void {
  if (prices === undefined) return;
  for (const name of Object.keys(priceNames)) {
    const value: unknown = Reflect.get(prices, name);
    if (!(typeof value === 'number' && value >= 0 && Number.isFinite(value)))
      throw invalidOption(code, `prices.${name}`, value, 'Pass a number of at least 0.');
  }
}

/**
 * Tokens of the answered calls of rollouts, completed or not: of the seats that the evaluated model plays. Null where a
 * call was not counted: the provider of an external model returned no count, or the agent called its address.
 */
export function tokensOf(rollouts: readonly Rollout[]): TokenUsage | null {
  const usage: TokenUsage = { promptTokens: 0, sampledTokens: 0 };
  for (const { trajectory, seats } of rollouts)
    for (const one of seats
      ? seats.filter(({ isPolicy }) => isPolicy).map((seat) => seat.trajectory)
      : [trajectory]) {
      const { calls } = one.log;
      const isUncounted = calls.some(({ external, promptTokens }) => external && promptTokens === 0);
      if (isUncounted || (one.externalModel !== undefined && calls.length === 0)) return null;
      usage.promptTokens += one.promptTokens;
      usage.sampledTokens += one.sampledTokens;
    }
  return usage;
}
