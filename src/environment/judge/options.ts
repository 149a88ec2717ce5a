import type { LanguageModel } from 'ai';
import { invalidOption, wholeNumberOption } from '../../util/option-error.ts';
import { type OptionNames, objectOf } from '../../util/option-names.ts';
import type { RewardContext } from '../rewards/reward.ts';
import type { JsonValue } from '../scenario-set/stage.ts';

type ProviderOptions = Record<string, Record<string, JsonValue | undefined>>;

/** Options of both judges. */
export interface JudgeOptions<Scenario, Outcome> {
  /**
   * Any AI SDK model. No trajectory records its calls. For a model of the same service, set `record: false`:
   * `handle.with({ record: false }).languageModel`.
   */
  model: LanguageModel;
  /** Describes a good conversation. Default: how well and how directly it reaches the goal. */
  rubric?: string;
  /** Describes the task, with a reference answer if there is one. Default: the judge sees only the conversations. */
  task?: (scenario: Scenario) => string;
  /**
   * Text to show with each conversation, such as its outcome. Default: none. Inside an environment, write the type of
   * the outcome: `({ outcome }: { outcome: string }) => ...`.
   */
  describe?: (
    context: Pick<RewardContext<Scenario, Outcome>, 'scenario' | 'outcome' | 'trajectory'>,
  ) => string;
  /** Attempts at a usable answer. Each further attempt tells the judge what is wrong with its answer. Default 3. */
  attempts?: number;
  /** Retries of a failed call in each attempt. Default 2. */
  maxRetries?: number;
  /** Temperature of the judge's calls. Default: the model's own. */
  temperature?: number;
  /** Most tokens of one answer. Default: the model's own. */
  maxOutputTokens?: number;
  /** Options for the model's provider, as in the AI SDK. */
  providerOptions?: ProviderOptions;
  /** A file of JSON lines with verdicts, which are not requested again. Default: only memory keeps verdicts. */
  cacheFile?: string;
  /** Verdicts in memory; the least recently used ones are dropped. Default 10,000. */
  cacheSize?: number;
  /** Prices for `usage.cost`. Default: the cost is null. */
  prices?: JudgePrices;
}

export const judgeNames = {
  model: true,
  rubric: 'text',
  task: 'function',
  describe: 'function',
  attempts: true,
  maxRetries: true,
  temperature: 'numeric',
  maxOutputTokens: true,
  providerOptions: true,
  cacheFile: 'path',
  cacheSize: true,
  prices: objectOf({ input: 'number', output: 'number' } satisfies OptionNames<JudgePrices>),
} satisfies OptionNames<JudgeOptions<unknown, unknown>>;

/** The options with their defaults. @throws OptionError (`invalid_judge_option`) for the first invalid value. */
export function resolveJudgeOptions<Scenario, Outcome>(options: JudgeOptions<Scenario, Outcome>) {
  const refusal = (option: string, value: unknown, remedy: string) =>
    invalidOption('invalid_judge_option', option, value, remedy);
  const { model, attempts = 3, maxRetries = 2, cacheSize = 10_000 } = options;
  const { maxOutputTokens = 1, temperature = 0, rubric, prices = {} } = options;
  if (!model) throw refusal('model', model, 'Pass the AI SDK model that judges.');
  if (!(temperature >= 0 && temperature < Number.POSITIVE_INFINITY))
    throw refusal('temperature', temperature, 'Pass a number of at least 0.');
  for (const [option, value, min] of [
    ['attempts', attempts, 1],
    ['maxRetries', maxRetries, 0],
    ['cacheSize', cacheSize, 1],
    ['maxOutputTokens', maxOutputTokens, 1],
  ] as const)
    wholeNumberOption('invalid_judge_option', option, value, min);
  if (rubric?.trim() === '')
    throw refusal('rubric', rubric, 'Describe a good conversation, or leave it out.');
  for (const [name, price] of Object.entries<number>({ ...prices }))
    if (!(price >= 0 && price < Number.POSITIVE_INFINITY))
      throw refusal(`prices.${name}`, price, 'Pass the price of a million tokens, at least 0.');
  return { ...options, attempts, maxRetries, cacheSize };
}

/** Price of a million tokens, in any currency. */
export interface JudgePrices {
  input: number;
  output: number;
}

/** Calls, tokens and cost of a judge since it was created. The object updates itself. */
export interface JudgeUsage {
  /** Model calls that were answered, unusable answers included. */
  readonly calls: number;
  /** Verdicts taken from the cache, or from a call that was in flight for another rollout. */
  readonly cached: number;
  /** Tokens, as the model's provider counts them. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** In the currency of `prices`; null without `prices`. */
  readonly cost: number | null;
}
