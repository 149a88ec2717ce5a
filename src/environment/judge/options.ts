import type { LanguageModel, LanguageModelUsage } from 'ai';
import { invalidOption, wholeNumberOption } from '../../util/option-error.ts';
import type { OptionNames } from '../../util/option-names.ts';
import type { RewardContext } from '../rewards/reward.ts';
import type { JsonValue } from '../scenario-set/scenario-source.ts';

type ProviderOptions = Record<string, Record<string, JsonValue | undefined>>;

/** What both judges take. */
export interface JudgeOptions<Scenario, Outcome> {
  /**
   * Any AI SDK model. Its calls are in no trajectory. A model of the same service is taken with `record: false`:
   * `handle.with({ record: false }).languageModel`.
   */
  model: LanguageModel;
  /** What a good conversation is, in words. Default: how well and how directly it reaches the goal. */
  rubric?: string;
  /** What the task was, shown once; a reference answer belongs here. Default: nothing but the conversations is shown. */
  task?: (scenario: Scenario) => string;
  /**
   * What is shown with each conversation beside itself, such as what came of it. Default: nothing. Written within an
   * environment, say what its outcome is: `({ outcome }: { outcome: string }) => ...`.
   */
  describe?: (
    context: Pick<RewardContext<Scenario, Outcome>, 'scenario' | 'outcome' | 'trajectory'>,
  ) => string;
  /** How often it is asked, an unusable answer given back with what is wrong with it. Default 3. */
  attempts?: number;
  /** How often a call that the model's provider refuses or loses is repeated, at each asking. Default 2. */
  maxRetries?: number;
  /** Default: the model's own. */
  temperature?: number;
  /** Most tokens of one answer. Default: the model's own. */
  maxOutputTokens?: number;
  /** For the model's provider, as the AI SDK takes it. */
  providerOptions?: ProviderOptions;
  /** JSON lines of verdicts, made where it is missing: what stands there is not asked again. Default: kept in memory alone. */
  cacheFile?: string;
  /** Verdicts kept in memory, the least recently used given up first. Default 10,000. */
  cacheSize?: number;
  /** For `usage.cost`. Default: the cost is null. */
  prices?: JudgePrices;
}

export const judgeNames = {
  model: true,
  rubric: true,
  task: true,
  describe: true,
  attempts: true,
  maxRetries: true,
  temperature: true,
  maxOutputTokens: true,
  providerOptions: true,
  cacheFile: true,
  cacheSize: true,
  prices: { input: true, output: true } satisfies OptionNames<JudgePrices>,
} satisfies OptionNames<JudgeOptions<unknown, unknown>>;

/** @throws OptionError (`invalid_judge_option`) for the first option with a value that cannot be used. */
export function checkJudgeOptions<Scenario, Outcome>(options: JudgeOptions<Scenario, Outcome>): void {
  const refuse = (option: string, value: unknown, remedy: string) =>
    invalidOption('invalid_judge_option', option, value, remedy);
  const { model, attempts = 3, maxRetries = 2, cacheSize = 10_000, maxOutputTokens = 1 } = options;
  const { temperature = 0, rubric, prices } = options;
  if (!model) throw refuse('model', model, 'Give the AI SDK model that judges.');
  if (!(temperature >= 0 && temperature < Number.POSITIVE_INFINITY))
    throw refuse('temperature', temperature, 'Give a number of 0 or more.');
  for (const [option, value, least] of [
    ['attempts', attempts, 1],
    ['maxRetries', maxRetries, 0],
    ['cacheSize', cacheSize, 1],
    ['maxOutputTokens', maxOutputTokens, 1],
  ] as const)
    wholeNumberOption('invalid_judge_option', option, value, least);
  if (rubric?.trim() === '')
    throw refuse('rubric', rubric, 'Say what a good conversation is, or leave it out.');
  for (const [name, price] of Object.entries(prices ?? {}))
    if (!(price >= 0 && price < Number.POSITIVE_INFINITY))
      throw refuse(`prices.${name}`, price, 'Give the price of a million tokens, 0 or more.');
}

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
