import type { z } from 'zod';
import {
  configFieldAliases,
  type RlConfig,
  refusedConfigFields,
  requestLimits,
  rlConfigSchema,
} from '../contract/index.ts';
import { limitWords, missingEnvironment, neededRollouts } from '../rollout/index.ts';
import { complaintOf, showValue } from '../util/complaint.ts';
import { longestTimerMs } from '../util/deadline.ts';
import {
  checkOptionNames,
  type OptionNames,
  type OptionTree,
  type OtherWords,
} from '../util/option-names.ts';
import type { RunBudget, TokenPrices } from './budget.ts';
import type { KeepCheckpoints } from './checkpoints.ts';
import { RunOptionError } from './errors.ts';
import { defaultLostJob, type LostJobOptions, lostJobNames } from './lost-job.ts';
import { checkModelSource, type ModelToOpen } from './model-source.ts';
import type { TrainOptions, TrainSettings, ValidationOptions, WarmStart } from './train-options.ts';

/** @throws OptionError, and RunOptionError that names the first option that cannot be met. */
export function checkOptions<Schema extends z.ZodType, Outcome>(
  settings: TrainOptions<Schema, Outcome>,
): void {
  const { steps, groupsPerStep, rolloutsPerGroup, maxStaleness, validation } = settings;
  const { concurrency, executor, rolloutTimeoutMs, jobTimeoutMs } = settings;
  checkTrainNames(settings);
  const missing = missingEnvironment(settings.environment);
  if (missing)
    throw new RunOptionError(`\`${missing.option}\` is ${showValue(missing.value)}. ${missing.remedy}`);
  checkScenarios(settings);
  wholeNumber('steps', steps, 1);
  const stepsOfConfig = typeof settings.config === 'function' ? steps : 1;
  for (let step = 0; step < stepsOfConfig; step++) configOf(settings, step);
  wholeNumber('groupsPerStep', groupsPerStep, 1);
  wholeNumber('rolloutsPerGroup', rolloutsPerGroup, 2);
  if (settings.groupStrategy) neededRollouts(settings.groupStrategy, rolloutsPerGroup);
  if (maxStaleness !== undefined) wholeNumber('maxStaleness', maxStaleness, 0);
  if (concurrency !== undefined) wholeNumber('concurrency', concurrency, 1);
  if (executor && concurrency !== undefined)
    throw new RunOptionError(
      `\`concurrency\` is ${concurrency} and an \`executor\` is given too, which says how many rollouts run at a time. ` +
        'Give one of the two.',
    );
  timeout('rolloutTimeoutMs', rolloutTimeoutMs);
  timeout('rewardTimeoutMs', settings.rewardTimeoutMs);
  timeout('groupTimeoutMs', settings.groupTimeoutMs);
  timeout('scenarioTimeoutMs', settings.scenarioTimeoutMs);
  timeout('jobTimeoutMs', jobTimeoutMs);
  checkLostJob(settings.lostJob);
  checkKeep(settings);
  checkBudget(settings);
  if (validation?.everySteps !== undefined) wholeNumber('validation.everySteps', validation.everySteps, 1);
  if (validation?.rolloutsPerScenario !== undefined)
    wholeNumber('validation.rolloutsPerScenario', validation.rolloutsPerScenario, 1);
  if (settings.resume && settings.runDirectory === undefined)
    throw new RunOptionError('`resume` needs `runDirectory`: the directory of the run to go on with.');
  checkWarmStart(settings);
  checkModelSource(settings);
}

function checkScenarios<Schema extends z.ZodType, Outcome>({
  scenarios,
  validation,
}: TrainSettings<Schema, Outcome>): void {
  if (typeof scenarios !== 'object' || scenarios === null)
    throw new RunOptionError(
      `\`scenarios\` is ${showValue(scenarios)}; give a list of them or a \`ScenarioSet\`.`,
    );
  if (Array.isArray(scenarios) && scenarios.length === 0)
    throw new RunOptionError('`scenarios` is empty: there is nothing to run.');
  if (!validation) return;
  if (!Array.isArray(validation.scenarios))
    throw new RunOptionError(
      `\`validation.scenarios\` is ${showValue(validation.scenarios)}; give a list of them.`,
    );
  if (validation.scenarios.length === 0)
    throw new RunOptionError('`validation.scenarios` is empty. Leave `validation` out to run without one.');
}

function checkWarmStart<Schema extends z.ZodType, Outcome>({
  warmStart,
}: TrainSettings<Schema, Outcome>): void {
  if (!warmStart) return;
  const { examples, batchSize, learningRate, assistantTurns = 'all' } = warmStart;
  if (batchSize !== undefined && batchSize !== 'auto') wholeNumber('warmStart.batchSize', batchSize, 1);
  for (const rate of [learningRate ?? 1].flat()) {
    if (typeof rate !== 'number' || !(rate > 0 && rate <= requestLimits.figure))
      throw new RunOptionError(
        `\`warmStart.learningRate\` has ${showValue(rate)}; give numbers above 0 and up to ${requestLimits.figure}.`,
      );
  }
  if (Array.isArray(learningRate) && learningRate.length === 0)
    throw new RunOptionError('`warmStart.learningRate` is empty; give one number, or one for each batch.');
  if (assistantTurns !== 'all' && assistantTurns !== 'last')
    throw new RunOptionError(
      `\`warmStart.assistantTurns\` is ${showValue(assistantTurns)}; give "all" or "last".`,
    );
  const isIterable =
    typeof examples === 'function' ||
    (typeof examples === 'object' &&
      examples !== null &&
      (Symbol.iterator in examples || Symbol.asyncIterator in examples));
  if (!isIterable)
    throw new RunOptionError(
      '`warmStart.examples` must be a list of conversations, an iterable of them, or a function that gives either.',
    );
  if (Array.isArray(examples) && examples.length === 0)
    throw new RunOptionError('`warmStart.examples` is empty. Leave `warmStart` out to begin without one.');
}

function checkKeep<Schema extends z.ZodType, Outcome>({
  keepCheckpoints: keep,
  validation,
}: TrainSettings<Schema, Outcome>): void {
  if (keep === undefined || keep === 'all') return;
  if (typeof keep === 'number') {
    wholeNumber('keepCheckpoints', keep, 1);
    return;
  }
  wholeNumber('keepCheckpoints.newest', keep.newest, 1);
  if (keep.best !== undefined) wholeNumber('keepCheckpoints.best', keep.best, 0);
  if (!validation && (keep.best || keep.metric))
    throw new RunOptionError(
      '`keepCheckpoints` asks for the best by their validation, and there is no `validation`. Give one.',
    );
}

function checkBudget<Schema extends z.ZodType, Outcome>({
  budget = {},
  prices,
}: TrainSettings<Schema, Outcome>): void {
  for (const name of ['tokens', 'cost', 'minutes'] as const) {
    const value = budget[name];
    if (value !== undefined && !(value > 0))
      throw new RunOptionError(`\`budget.${name}\` is ${value}; give a number above 0.`);
  }
  if (budget.cost !== undefined && !prices)
    throw new RunOptionError('`budget.cost` needs `prices`: without them no cost is known.');
  if (!prices) return;
  for (const [name, value] of Object.entries(prices)) {
    if (!(value >= 0))
      throw new RunOptionError(`\`prices.${name}\` is ${value}; give a number of at least 0.`);
  }
}

/** @throws RunOptionError */
export function checkLostJob({ waitMs, decision = defaultLostJob.decision }: LostJobOptions = {}): void {
  if (waitMs !== undefined && !(waitMs >= 0 && waitMs <= longestTimerMs))
    throw new RunOptionError(
      `\`lostJob.waitMs\` is ${waitMs}; give milliseconds from 0 up to ${longestTimerMs} (24 days).`,
    );
  if (!['stop', 'ask_again', 'take_as_done'].includes(decision))
    throw new RunOptionError(
      `\`lostJob.decision\` is "${decision}"; give "stop", "ask_again" or "take_as_done".`,
    );
}

function timeout(name: string, value: number | undefined): void {
  if (value === undefined || (typeof value === 'number' && value > 0 && value <= longestTimerMs)) return;
  throw new RunOptionError(
    `\`${name}\` is ${showValue(value)}; give milliseconds above 0 and up to ${longestTimerMs} (24 days).`,
  );
}

function wholeNumber(name: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least) {
    throw new RunOptionError(`\`${name}\` is ${showValue(value)}; give a whole number of at least ${least}.`);
  }
}

/** Of a training job. What our service refuses by name, another service of the interface may take. */
export const configNames: OptionTree = Object.fromEntries(
  [...Object.keys(rlConfigSchema.shape), ...Object.keys(configFieldAliases), ...refusedConfigFields].map(
    (name) => [name, true],
  ),
);

const trainNames = {
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

/** @throws OptionError */
export function checkTrainNames(options: object): void {
  checkOptionNames('train()', options, trainNames, otherWords);
}

/**
 * The options of a step's job.
 * @throws RunOptionError for a promise of them and for a value that a field cannot have, OptionError.
 */
export function configOf<Schema extends z.ZodType, Outcome>(
  { config, steps }: Pick<TrainOptions<Schema, Outcome>, 'config' | 'steps'>,
  step: number,
): RlConfig | undefined {
  const given = typeof config === 'function' ? config({ step, steps }) : config;
  if (typeof given === 'object' && given !== null && 'then' in given)
    throw new RunOptionError('`config` gave a promise. It must answer at once, with the config of the step.');
  if (given === undefined || given === null) return given;
  checkOptionNames('train()', { config: given }, { config: configNames });
  checkConfigValues(given, typeof config === 'function' ? ` \`config({ step: ${step} })\` gave it.` : '');
  return given;
}

/** The service would say the same, but only after the rollouts of the step. */
function checkConfigValues(config: object, when: string): void {
  if (typeof config !== 'object' || Array.isArray(config))
    throw new RunOptionError(`\`config\` is ${showValue(config)}; give an object of options.${when}`);
  // Fields that only another service takes are unknown to the schema, which is no complaint.
  const read = rlConfigSchema.safeParse(config);
  const complaints = [read.success ? null : complaintOf('config', config, read.error)];
  for (const [alias, name] of Object.entries(configFieldAliases)) {
    const value: unknown = Reflect.get(config, alias);
    const { error } = rlConfigSchema.shape[name].safeParse(value);
    if (error) complaints.push(complaintOf(`config.${alias}`, value, error));
  }
  const first = complaints.find((complaint) => complaint !== null);
  if (first) throw new RunOptionError(`${first}${when}`);
}
