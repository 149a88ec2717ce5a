import type { LanguageModel } from 'ai';
import type { z } from 'zod';
import type { Environment, TextSet } from '../environment/index.ts';
import type { TokenPrices, TokenUsage } from '../evaluation/index.ts';
import type { RolloutModel } from '../model/index.ts';
import type { ProgressOption } from '../progress/index.ts';
import {
  checkEssentials,
  checkSeats,
  limitWords,
  type RolloutSettings,
  rolloutSettingNames,
  wholeRolloutSettings,
} from '../rollout/index.ts';
import { checkBudget, type RunBudget } from '../training/index.ts';
import { invalidOption, OptionError, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import type {
  OptimizationCandidate,
  OptimizationIteration,
  OptimizationRecord,
  OptimizationSpent,
} from './log.ts';

/** What a reflection sees: one rollout of the minibatch. */
export interface ReflectionExample {
  scenario: unknown;
  /** Null if the rollout did not complete. */
  reward: number | null;
  /** Metrics, with the value of each reward under its name. */
  metrics: Readonly<Record<string, number | boolean>>;
  /** What rewards and agent wrote into `trajectory.logs`. */
  notes: readonly string[];
  /** Why it did not complete. */
  failure: string | null;
  /** The main conversation as text. */
  conversation: string;
}

export interface ReflectionRequest {
  /** Name of the text to improve. */
  name: string;
  text: string;
  /** All texts of the candidate. */
  texts: TextSet;
  examples: readonly ReflectionExample[];
  /** The prompt that a model would get. */
  prompt: string;
  /** Aborted at the deadline and when the run is stopped. */
  signal: AbortSignal;
}

/** A new text; null for none. With the tokens that it took, they count towards the budget. */
export type Reflected = string | null | ({ text: string | null } & TokenUsage);

export type ReflectFunction = (request: ReflectionRequest) => Reflected | PromiseLike<Reflected>;

/** Limits of an optimisation, checked before each step that costs and after each scenario. */
export interface OptimizationBudget extends RunBudget {
  /** Rollouts in all. Work that would exceed it does not begin; further attempts of `groupStrategy` may exceed it. */
  rollouts?: number;
}

export interface OptimizeOptions<Schema extends z.ZodType, Outcome, Texts extends TextSet>
  extends RolloutSettings {
  /** It declares its texts: `defineEnvironment({ texts })`. The search begins with them. */
  environment: Environment<Schema, Outcome, Texts>;
  /** Reflections see rollouts of these, a few at a time. */
  scenarios: readonly z.input<Schema>[];
  /**
   * Candidates are compared on these. Use others than `scenarios`, and judge the result on scenarios in neither.
   *
   * @default `scenarios`
   */
  validation?: readonly z.input<Schema>[];
  /** The agent's model: a handle, pinned to a step, or an external model. */
  model: RolloutModel;
  /**
   * Which texts of the environment to improve; the others stay as they are.
   *
   * @default all
   * @example ['system']
   */
  texts?: readonly (keyof Texts & string)[];
  /** Proposes new texts: a model of the AI SDK, whose calls are in no trajectory, or a function. */
  reflect: LanguageModel | ReflectFunction;
  /**
   * Proposals to try at most.
   *
   * @default 20
   * @example 50
   */
  iterations?: number;
  /**
   * Scenarios of a minibatch: the rollouts that a reflection sees. The proposal is validated only if it does better on
   * them.
   *
   * @default 3, or all scenarios if there are fewer
   * @example 5
   */
  minibatch?: number;
  /** Default 1. */
  rolloutsPerScenario?: number;
  /** As in `evaluate`: default 0 for a model handle, `agent` for external models. */
  temperature?: number | 'agent';
  /**
   * Deadline of one reflection in milliseconds, with its retries.
   *
   * @default 600_000 (10 minutes)
   * @example 60_000
   */
  reflectTimeoutMs?: number;
  /** Ends the run when a limit is reached. Rollouts in flight are cancelled. Default: none. */
  budget?: OptimizationBudget;
  /** Token prices of `model`, for costs. Default: the cost is null. */
  prices?: TokenPrices;
  /** Token prices of `reflect`, in the unit of `prices`. Default: the cost is null once `reflect` has used tokens. */
  reflectPrices?: TokenPrices;
  /**
   * Folder of the run. Everything is in it before it counts, so a run that was killed goes on with `resume` and pays
   * nothing twice.
   *
   * @default `runs/<date>-<environment>-texts`
   */
  runDirectory?: string;
  /**
   * Continues the run in `runDirectory`, with the options that it began with, except `iterations`, `budget`, `prices`,
   * deadlines and `reflect`. `true`: there must be one. `auto`: begins one if there is none.
   *
   * @default false
   */
  resume?: boolean | 'auto';
  /** Gets each record of the run once it is on disk. An error that it throws ends the run. */
  onEvent?: (record: OptimizationRecord) => void;
  /** As in `train`. */
  progress?: ProgressOption;
  /** Stops the run, which returns with reason `stopped` and can be resumed. */
  signal?: AbortSignal;
}

/** What `optimize` returns. */
export interface Optimization<Texts extends TextSet = TextSet> {
  /** The best candidate's texts, for `environment.withTexts()`; also in `texts.json` of the run directory. */
  texts: Texts;
  /** The candidate with the largest mean reward on the validation scenarios; of equal ones, the first. */
  best: OptimizationCandidate;
  /** All candidates by number; the first has the environment's own texts. */
  candidates: OptimizationCandidate[];
  iterations: OptimizationIteration[];
  /**
   * `finished`: all iterations are done. `early_stop`: a whole pass over the scenarios had nothing to reflect on.
   * `budget` and `stopped`: the run can be resumed.
   */
  reason: 'finished' | 'early_stop' | 'budget' | 'stopped';
  /** Which limit of the budget is reached, or why there was nothing left; null for other reasons. */
  because: string | null;
  runDirectory: string;
  /** Used by all calls for this run. */
  spent: OptimizationSpent;
}

const priceNames = {
  promptTokensPerMillion: true,
  sampledTokensPerMillion: true,
} satisfies OptionNames<TokenPrices>;

const optimizeNames = {
  ...rolloutSettingNames,
  environment: true,
  scenarios: true,
  validation: true,
  model: true,
  texts: true,
  reflect: true,
  iterations: true,
  minibatch: true,
  rolloutsPerScenario: true,
  temperature: true,
  reflectTimeoutMs: true,
  budget: objectOf({
    tokens: true,
    cost: true,
    minutes: true,
    rollouts: true,
  } satisfies OptionNames<OptimizationBudget>),
  prices: objectOf(priceNames),
  reflectPrices: objectOf(priceNames),
  runDirectory: 'path',
  resume: true,
  onEvent: 'function',
  progress: true,
  signal: 'signal',
} satisfies OptionNames<OptimizeOptions<z.ZodType, unknown, TextSet>>;

/** @throws OptionError for the first option that is unknown or invalid. */
export function checkOptions<Schema extends z.ZodType, Outcome, Texts extends TextSet>(
  options: OptimizeOptions<Schema, Outcome, Texts>,
): void {
  checkOptionNames('optimize()', options, optimizeNames, limitWords);
  const { environment, scenarios, validation = scenarios, texts, reflect, budget = {} } = options;
  const invalid = (option: string, value: unknown, remedy: string) =>
    invalidOption('invalid_run_option', option, value, remedy);
  checkEssentials('invalid_run_option', options);
  checkSeats(environment, options.seats);
  const known = Object.keys(environment.texts);
  if (known.length === 0)
    throw new OptionError(
      'invalid_run_option',
      `Environment "${environment.name}" declares no texts. Give them in \`defineEnvironment({ texts })\`, and use ` +
        '`texts` of the context in its agent.',
      { option: 'environment' },
    );
  if (
    texts !== undefined &&
    (!Array.isArray(texts) || texts.length === 0 || new Set(texts).size < texts.length)
  )
    throw invalid('texts', texts, `Pass names of the environment's texts, each once: ${known.join(', ')}.`);
  for (const text of texts ?? [])
    if (!known.includes(text))
      throw invalid('texts', text, `The environment has the texts ${known.join(', ')}.`);
  for (const [name, list] of Object.entries({ scenarios, validation }))
    if (!Array.isArray(list) || list.length === 0)
      throw invalid(name, list, 'Pass a list of at least one scenario.');
  if (typeof reflect !== 'function' && typeof reflect !== 'string' && !isModel(reflect))
    throw invalid('reflect', reflect, 'Pass a model of the AI SDK, or a function.');
  const { iterations = 1, minibatch = 1, rolloutsPerScenario = 1, reflectTimeoutMs = 1 } = options;
  for (const [name, value] of Object.entries({ iterations, minibatch, rolloutsPerScenario }))
    wholeNumberOption('invalid_run_option', name, value, 1);
  if (minibatch > scenarios.length)
    throw invalid('minibatch', minibatch, `There are ${scenarios.length} scenarios: pass at most that many.`);
  if (!(reflectTimeoutMs > 0))
    throw invalid('reflectTimeoutMs', reflectTimeoutMs, 'Pass milliseconds above 0.');
  if (![undefined, true, false, 'auto'].includes(options.resume))
    throw invalid('resume', options.resume, 'Pass true, false or "auto".');
  checkBudget({ budget, ...(options.prices ? { prices: options.prices } : {}) });
  checkBudget({ ...(options.reflectPrices ? { prices: options.reflectPrices } : {}) });
  if (budget.cost !== undefined && !options.reflectPrices && typeof reflect !== 'function')
    throw new OptionError(
      'invalid_run_option',
      '`budget.cost` needs `reflectPrices` too: without them the cost of `reflect` is not known.',
      { option: 'budget.cost' },
    );
  wholeRolloutSettings(options, rolloutsPerScenario, 'invalid_run_option');
}

const isModel = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'doGenerate' in value;
