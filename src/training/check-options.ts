import type { z } from 'zod';
import { configFieldAliases, type RlConfig, refusedConfigFields, rlConfigSchema } from '../contract/index.ts';
import { checkEnvironment, limitWords, neededRollouts } from '../rollout/index.ts';
import { complaintOf, showValue } from '../util/complaint.ts';
import { longestTimerMs } from '../util/deadline.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import {
  checkOptionNames,
  type OptionNames,
  type OptionTree,
  type OtherWords,
} from '../util/option-names.ts';
import type { RunBudget, TokenPrices } from './budget.ts';
import { invalidRunOption, runOptionError } from './errors.ts';
import { checkLostJob, lostJobNames } from './lost-job.ts';
import { checkModelSource, type ModelToOpen } from './model-source.ts';
import { checkSftSettings } from './sft-job.ts';
import type {
  KeepCheckpoints,
  TrainOptions,
  TrainSettings,
  ValidationOptions,
  WarmStart,
} from './train-options.ts';

/** Option names of a training job. Includes names that only other services accept; ours rejects them. */
export const configNames: OptionTree = Object.fromEntries(
  [...Object.keys(rlConfigSchema.shape), ...Object.keys(configFieldAliases), ...refusedConfigFields].map(
    (name) => [name, true],
  ),
);

export const trainNames = {
  environment: true,
  scenarios: true,
  model: {
    entity: true,
    project: true,
    name: true,
    baseModel: true,
    ifExists: true,
  } satisfies OptionNames<ModelToOpen>,
  client: true,
  baseUrl: true,
  apiKey: true,
  steps: true,
  groupsPerStep: true,
  rolloutsPerGroup: true,
  maxStaleness: true,
  config: configNames,
  warmStart: {
    examples: true,
    batchSize: true,
    learningRate: true,
    assistantTurns: true,
  } satisfies OptionNames<WarmStart>,
  executor: true,
  concurrency: true,
  groupStrategy: true,
  rolloutTimeoutMs: true,
  rewardTimeoutMs: true,
  groupTimeoutMs: true,
  scenarioTimeoutMs: true,
  jobTimeoutMs: true,
  lostJob: lostJobNames,
  onUnexpectedCall: true,
  seed: true,
  validation: {
    scenarios: true,
    everySteps: true,
    rolloutsPerScenario: true,
    temperature: true,
  } satisfies OptionNames<ValidationOptions<z.ZodType>>,
  stopWhen: true,
  budget: { tokens: true, cost: true, minutes: true } satisfies OptionNames<RunBudget>,
  prices: {
    promptTokensPerMillion: true,
    sampledTokensPerMillion: true,
  } satisfies OptionNames<TokenPrices>,
  keepCheckpoints: { newest: true, best: true, metric: true } satisfies OptionNames<KeepCheckpoints>,
  runDirectory: true,
  resume: true,
  onEvent: true,
  progress: true,
  signal: true,
} satisfies OptionNames<TrainOptions<z.ZodType, unknown>>;

const otherWords: OtherWords = {
  ...limitWords,
  temperature:
    'Rollouts sample as the agent asks: set it in the call of the agent, or train `model.with({ temperature })`.',
  batchsize: ['groupsPerStep', 'rolloutsPerGroup'],
  groupsize: ['rolloutsPerGroup'],
  epochs: ['steps'],
};

/** @throws OptionError for the first invalid option. */
export function checkOptions<Schema extends z.ZodType, Outcome>(
  settings: TrainOptions<Schema, Outcome>,
): void {
  const { steps, rolloutsPerGroup, groupStrategy, executor, concurrency, warmStart } = settings;
  checkOptionNames('train()', settings, trainNames, otherWords);
  checkEnvironment('invalid_run_option', settings.environment);
  checkScenarios(settings);
  checkNumbers(settings);
  const stepsOfConfig = typeof settings.config === 'function' ? steps : 1;
  for (let step = 0; step < stepsOfConfig; step++) configOf(settings, step);
  if (groupStrategy) neededRollouts(groupStrategy, rolloutsPerGroup);
  if (executor && concurrency !== undefined)
    throw invalidRunOption(
      'concurrency',
      concurrency,
      'There is an `executor` too, and it limits how many rollouts run at a time. Leave one of the two out.',
    );
  checkLostJob(settings.lostJob);
  checkKeep(settings);
  checkBudget(settings);
  if (settings.resume && settings.runDirectory === undefined)
    throw runOptionError('resume', '`resume` needs `runDirectory`: the directory of the run to go on with.');
  if (warmStart) {
    checkSftSettings(warmStart, 'warmStart.');
    checkExamples(warmStart.examples);
  }
  checkModelSource(settings);
}

/** Checks whole numbers and times in milliseconds. */
function checkNumbers<Schema extends z.ZodType, Outcome>(settings: TrainSettings<Schema, Outcome>): void {
  const { steps, groupsPerStep, rolloutsPerGroup, validation } = settings;
  const whole = (option: string, value: number | undefined, least: number) => {
    if (value !== undefined) wholeNumberOption('invalid_run_option', option, value, least);
  };
  for (const [option, value] of Object.entries({ steps, groupsPerStep }))
    wholeNumberOption('invalid_run_option', option, value, 1);
  wholeNumberOption('invalid_run_option', 'rolloutsPerGroup', rolloutsPerGroup, 2);
  whole('maxStaleness', settings.maxStaleness, 0);
  whole('concurrency', settings.concurrency, 1);
  whole('validation.everySteps', validation?.everySteps, 1);
  whole('validation.rolloutsPerScenario', validation?.rolloutsPerScenario, 1);
  const { rolloutTimeoutMs, rewardTimeoutMs, groupTimeoutMs, scenarioTimeoutMs, jobTimeoutMs } = settings;
  const times = { rolloutTimeoutMs, rewardTimeoutMs, groupTimeoutMs, scenarioTimeoutMs, jobTimeoutMs };
  for (const [option, value] of Object.entries(times))
    if (value !== undefined && !(typeof value === 'number' && value > 0 && value <= longestTimerMs))
      throw invalidRunOption(
        option,
        value,
        `Give milliseconds above 0 and up to ${longestTimerMs} (24 days).`,
      );
}

function checkScenarios<Schema extends z.ZodType, Outcome>({
  scenarios,
  validation,
}: TrainSettings<Schema, Outcome>): void {
  if (typeof scenarios !== 'object' || scenarios === null)
    throw invalidRunOption('scenarios', scenarios, 'Give a list of them or a `ScenarioSet`.');
  if (Array.isArray(scenarios) && scenarios.length === 0)
    throw runOptionError('scenarios', '`scenarios` is empty: there is nothing to run.');
  if (!validation) return;
  if (!Array.isArray(validation.scenarios))
    throw invalidRunOption('validation.scenarios', validation.scenarios, 'Give a list of them.');
  if (validation.scenarios.length === 0)
    throw runOptionError(
      'validation.scenarios',
      '`validation.scenarios` is empty. Leave `validation` out to run without one.',
    );
}

function checkExamples(examples: unknown): void {
  const isIterable =
    typeof examples === 'function' ||
    (typeof examples === 'object' &&
      examples !== null &&
      (Symbol.iterator in examples || Symbol.asyncIterator in examples));
  if (!isIterable)
    throw invalidRunOption(
      'warmStart.examples',
      examples,
      'Give a list of conversations, an iterable of them, or a function that gives either.',
    );
  if (Array.isArray(examples) && examples.length === 0)
    throw runOptionError(
      'warmStart.examples',
      '`warmStart.examples` is empty. Leave `warmStart` out to begin without one.',
    );
}

function checkKeep<Schema extends z.ZodType, Outcome>({
  keepCheckpoints: keep,
  validation,
}: TrainSettings<Schema, Outcome>): void {
  if (keep === undefined || keep === 'all') return;
  const { newest, best, metric } = typeof keep === 'number' ? { newest: keep } : keep;
  const within = typeof keep === 'number' ? 'keepCheckpoints' : 'keepCheckpoints.newest';
  wholeNumberOption('invalid_run_option', within, newest, 1);
  if (best !== undefined) wholeNumberOption('invalid_run_option', 'keepCheckpoints.best', best, 0);
  if (!validation && (best || metric))
    throw runOptionError(
      'keepCheckpoints',
      '`keepCheckpoints` asks for the best by their validation, and there is no `validation`. Give one.',
    );
}

function checkBudget<Schema extends z.ZodType, Outcome>({
  budget = {},
  prices = {},
}: Pick<TrainSettings<Schema, Outcome>, 'budget'> & { prices?: Partial<TokenPrices> }): void {
  for (const [name, value] of Object.entries(budget))
    if (value !== undefined && !(value > 0))
      throw invalidRunOption(`budget.${name}`, value, 'Give a number above 0.');
  if (budget.cost !== undefined && Object.keys(prices).length === 0)
    throw runOptionError('budget.cost', '`budget.cost` needs `prices`: without them no cost is known.');
  for (const [name, value] of Object.entries(prices))
    if (!(value >= 0)) throw invalidRunOption(`prices.${name}`, value, 'Give a number of at least 0.');
}

/**
 * The training options of a step.
 * @throws OptionError if `config` returns a promise, or for an unknown option or an invalid value.
 */
export function configOf<Schema extends z.ZodType, Outcome>(
  { config, steps }: Pick<TrainOptions<Schema, Outcome>, 'config' | 'steps'>,
  step: number,
): RlConfig | undefined {
  const given = typeof config === 'function' ? config({ step, steps }) : config;
  if (typeof given === 'object' && given !== null && 'then' in given)
    throw runOptionError(
      'config',
      '`config` gave a promise. It must answer at once, with the config of the step.',
    );
  if (given === undefined || given === null) return given;
  checkOptionNames('train()', { config: given }, { config: configNames });
  checkConfigValues(given, typeof config === 'function' ? ` \`config({ step: ${step} })\` gave it.` : '');
  return given;
}

/** Checks values early: the service would reject them too, but only after the rollouts of the step. */
function checkConfigValues(config: object, when: string): void {
  if (typeof config !== 'object' || Array.isArray(config))
    throw runOptionError('config', `\`config\` is ${showValue(config)}; give an object of options.${when}`);
  // The schema does not know fields that only other services accept, and lets them pass.
  const read = rlConfigSchema.safeParse(config);
  const complaints = [read.success ? null : complaintOf('config', config, read.error)];
  for (const [alias, name] of Object.entries(configFieldAliases)) {
    const value: unknown = Reflect.get(config, alias);
    const { error } = rlConfigSchema.shape[name].safeParse(value);
    if (error) complaints.push(complaintOf(`config.${alias}`, value, error));
  }
  const first = complaints.find((complaint) => complaint !== null);
  if (first) throw runOptionError('config', `${first}${when}`);
}
