import type { z } from 'zod';
import { trainingLimits } from '../contract/index.ts';
import { checkPrices, priceNames, type TokenPrices } from '../evaluation/index.ts';
import {
  checkEnvironment,
  checkSeats,
  limitWords,
  rolloutSettingNames,
  type WholeRolloutSettings,
  wholeRolloutSettings,
} from '../rollout/index.ts';
import { maxTimerMs } from '../util/deadline.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import {
  checkArgument,
  checkOptionNames,
  type OptionNames,
  type OtherWords,
  objectOf,
} from '../util/option-names.ts';
import type { RunBudget } from './budget.ts';
import { invalidRunOption, noScenarios, runOptionError } from './errors.ts';
import { configNames, configOf } from './job-config.ts';
import { checkLostJob, lostJobNames } from './lost-job.ts';
import { checkModelSource, type ModelToOpen } from './model-source.ts';
import { checkSftSettings, sftSettingNames } from './sft-job.ts';
import { checkTeacher, type Teacher } from './teacher.ts';
import type {
  KeepCheckpoints,
  TrainOptions,
  TrainSettings,
  ValidationOptions,
  WarmStart,
} from './train-options.ts';

const { timeoutMs: _, ...rolloutNames } = rolloutSettingNames;

export const trainNames = {
  ...rolloutNames,
  environment: true,
  scenarios: true,
  model: {
    entity: true,
    project: true,
    name: true,
    baseModel: true,
    ifExists: true,
  } satisfies OptionNames<ModelToOpen>,
  client: 'client',
  baseUrl: true,
  apiKey: true,
  steps: true,
  groupsPerStep: true,
  rolloutsPerGroup: true,
  maxStaleness: true,
  config: configNames,
  teacher: objectOf({ model: true, weight: true } satisfies OptionNames<Teacher>),
  warmStart: objectOf({ examples: true, ...sftSettingNames } satisfies OptionNames<WarmStart>),
  rolloutTimeoutMs: true,
  rewardTimeoutMs: true,
  groupTimeoutMs: true,
  scenarioTimeoutMs: true,
  jobTimeoutMs: true,
  lostJob: objectOf(lostJobNames),
  validation: objectOf({
    scenarios: true,
    everySteps: true,
    rolloutsPerScenario: true,
    temperature: true,
    seats: true,
  } satisfies OptionNames<ValidationOptions<z.ZodType>>),
  stopWhen: 'function',
  budget: objectOf({ tokens: true, cost: true, minutes: true } satisfies OptionNames<RunBudget>),
  prices: objectOf(priceNames),
  keepCheckpoints: { newest: true, best: true, metric: true } satisfies OptionNames<KeepCheckpoints>,
  runDirectory: 'path',
  resume: [true, false, 'auto'],
  onEvent: 'function',
  progress: true,
  signal: 'signal',
} satisfies OptionNames<TrainOptions<z.ZodType, unknown>>;

const otherWords: OtherWords = {
  ...limitWords,
  temperature:
    'The agent decides how rollouts sample: set it in its calls, or train `model.with({ temperature })`.',
  batchsize: ['groupsPerStep', 'rolloutsPerGroup'],
  groupsize: ['rolloutsPerGroup'],
  epochs: ['steps'],
};

/** Returns the rollout settings with their defaults. @throws OptionError for the first invalid option. */
export function checkOptions<Schema extends z.ZodType, Outcome>(
  settings: TrainOptions<Schema, Outcome>,
): WholeRolloutSettings {
  checkOptionNames('train()', settings, trainNames, otherWords);
  const { steps, rolloutsPerGroup, rolloutTimeoutMs, warmStart } = settings;
  checkEnvironment('invalid_run_option', settings.environment);
  checkTeacher(settings.teacher, settings.environment);
  checkScenarios(settings);
  checkNumbers(settings);
  const stepsOfConfig = typeof settings.config === 'function' ? steps : 1;
  for (let step = 0; step < stepsOfConfig; step++) configOf(settings, step);
  const rolloutSettings = { ...settings, timeoutMs: rolloutTimeoutMs };
  const rollouts = wholeRolloutSettings(rolloutSettings, rolloutsPerGroup, 'invalid_run_option');
  checkSeats(settings.environment, settings.seats);
  checkSeats(settings.environment, settings.validation?.seats, 'validation.seats');
  checkLostJob(settings.lostJob);
  checkKeep(settings);
  checkBudget(settings);
  if (settings.resume && settings.runDirectory === undefined)
    throw runOptionError('resume', '`resume` needs `runDirectory`: the directory of the run to resume.');
  if (warmStart) {
    checkSftSettings(warmStart, 'warmStart.');
    checkExamples(warmStart.examples);
  }
  checkModelSource(settings);
  return rollouts;
}

/** Checks whole numbers and times in milliseconds. */
function checkNumbers<Schema extends z.ZodType, Outcome>(settings: TrainSettings<Schema, Outcome>): void {
  const { steps, groupsPerStep, rolloutsPerGroup, maxStaleness = 0, concurrency = 1 } = settings;
  const { everySteps = 1, rolloutsPerScenario = 1 } = settings.validation ?? {};
  const wholeNumbers: [option: string, value: number, minimum: number, maximum?: number][] = [
    ['steps', steps, 1],
    ['groupsPerStep', groupsPerStep, 1, trainingLimits.groups],
    ['rolloutsPerGroup', rolloutsPerGroup, settings.teacher ? 1 : 2, trainingLimits.trajectories],
    ['maxStaleness', maxStaleness, 0],
    ['concurrency', concurrency, 1],
    ['validation.everySteps', everySteps, 1],
    ['validation.rolloutsPerScenario', rolloutsPerScenario, 1],
  ];
  for (const wholeNumber of wholeNumbers) wholeNumberOption('invalid_run_option', ...wholeNumber);
  const { rolloutTimeoutMs, rewardTimeoutMs, groupTimeoutMs, scenarioTimeoutMs, jobTimeoutMs } = settings;
  const temperature = settings.validation?.temperature;
  if (temperature !== undefined && temperature !== 'agent')
    checkArgument('validation.temperature', temperature, 'temperature');
  const times = { rolloutTimeoutMs, rewardTimeoutMs, groupTimeoutMs, scenarioTimeoutMs, jobTimeoutMs };
  for (const [option, value] of Object.entries(times))
    if (value !== undefined && !(typeof value === 'number' && value > 0 && value <= maxTimerMs))
      throw invalidRunOption(option, value, `Pass milliseconds above 0 and up to ${maxTimerMs} (24 days).`);
}

function checkScenarios<Schema extends z.ZodType, Outcome>({
  scenarios,
  validation,
}: TrainSettings<Schema, Outcome>): void {
  const isSource = typeof scenarios === 'object' && scenarios !== null && 'take' in scenarios;
  if (!Array.isArray(scenarios) && !isSource)
    throw invalidRunOption('scenarios', scenarios, 'Pass a list of scenarios or a `ScenarioSet`.');
  if (Array.isArray(scenarios) && scenarios.length === 0) throw noScenarios();
  if (!validation) return;
  if (!Array.isArray(validation.scenarios))
    throw invalidRunOption('validation.scenarios', validation.scenarios, 'Pass a list of scenarios.');
  if (validation.scenarios.length === 0)
    throw runOptionError(
      'validation.scenarios',
      '`validation.scenarios` is empty. Remove `validation` to run without one.',
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
      'Pass a list of conversations, an iterable of them, or a function that returns either.',
    );
  if (Array.isArray(examples) && examples.length === 0)
    throw runOptionError(
      'warmStart.examples',
      '`warmStart.examples` is empty. Remove `warmStart` to begin without one.',
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
      '`keepCheckpoints` ranks by validation, but `validation` is not set.',
    );
}

/** @throws OptionError for a limit or price that is no number, and for a cost without prices. */
export function checkBudget({
  budget = {},
  prices,
}: {
  budget?: RunBudget;
  prices?: Partial<TokenPrices>;
}): void {
  for (const [name, value] of Object.entries(budget))
    if (value !== undefined && !(value > 0))
      throw invalidRunOption(`budget.${name}`, value, 'Pass a number above 0.');
  if (budget.cost !== undefined && !prices)
    throw runOptionError('budget.cost', '`budget.cost` needs `prices`: without them no cost is known.');
  checkPrices('invalid_run_option', prices);
}
