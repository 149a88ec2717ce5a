import type { LanguageModelUsage } from 'ai';

/** Price of a million tokens, in any currency. */
export interface JudgePrices {
  input: number;
  output: number;
}

/** What a judge has used since it was made; it goes on counting. */
export interface JudgeUsage {
  /** Model calls that were answered, unusable answers included. */
  readonly calls: number;
  /** Verdicts that were known already, or that somebody else was asking for. */
  readonly cached: number;
  /** As the model's provider counts them. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** In the currency of `prices`; null without. */
  readonly cost: number | null;
}

/** Adds up what a judge uses. */
export class UsageMeter {
  readonly #prices: JudgePrices | undefined;
  readonly #usage: { -readonly [Name in keyof JudgeUsage]: JudgeUsage[Name] };

  constructor(prices: JudgePrices | undefined) {
    this.#prices = prices;
    this.#usage = { calls: 0, cached: 0, inputTokens: 0, outputTokens: 0, cost: prices ? 0 : null };
  }

  get usage(): JudgeUsage {
    return this.#usage;
  }

  addCall({ inputTokens = 0, outputTokens = 0 }: LanguageModelUsage): void {
    const [usage, prices] = [this.#usage, this.#prices];
    usage.calls++;
    usage.inputTokens += inputTokens;
    usage.outputTokens += outputTokens;
    if (prices) usage.cost = (usage.inputTokens * prices.input + usage.outputTokens * prices.output) / 1e6;
  }

  addCached(): void {
    this.#usage.cached++;
  }
}
