import type { z } from 'zod';
import { configFieldAliases, type RlConfig, refusedConfigFields, rlConfigSchema } from '../contract/index.ts';
import { limitWords } from '../rollout/index.ts';
import { complaintOf, showValue } from '../util/complaint.ts';
import {
  checkOptionNames,
  type OptionNames,
  type OptionTree,
  type OtherWords,
} from '../util/option-names.ts';
import type { RunBudget, TokenPrices } from './budget.ts';
import type { KeepCheckpoints } from './checkpoints.ts';
import { RunOptionError } from './errors.ts';
import { lostJobNames } from './lost-job.ts';
import type { ModelToOpen } from './model-source.ts';
import type { TrainOptions, ValidationOptions, WarmStart } from './train-options.ts';

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
