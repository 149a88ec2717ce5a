import type { z } from 'zod';
import { configFieldAliases, type RlConfig, refusedConfigFields, rlConfigSchema } from '../contract/index.ts';
import { checkOptionNames, type OptionTree } from '../util/option-names.ts';
import { problemOf, showValue } from '../util/show-value.ts';
import { runOptionError } from './errors.ts';
import { checkNoPenalty, withTeacher } from './teacher.ts';
import type { TrainSettings } from './train-options.ts';

/** Option names of a training job. Includes names that only other services accept; ours rejects them. */
export const configNames: OptionTree = Object.fromEntries(
  [...Object.keys(rlConfigSchema.shape), ...Object.keys(configFieldAliases), ...refusedConfigFields].map(
    (name) => [name, true],
  ),
);

/**
 * The training options of a step.
 * @throws OptionError if `config` returns a promise, or for an unknown option or an invalid value.
 */
export function configOf<Schema extends z.ZodType, Outcome>(
  { config, steps, teacher }: Pick<TrainSettings<Schema, Outcome>, 'config' | 'steps' | 'teacher'>,
  step: number,
): RlConfig | undefined {
  const ofStep = typeof config === 'function' ? config({ step, steps }) : config;
  if (typeof ofStep === 'object' && ofStep !== null && 'then' in ofStep)
    throw runOptionError('config', '`config` returned a promise; it must return the options directly.');
  if (ofStep === undefined || ofStep === null) return withTeacher(undefined, teacher);
  checkOptionNames('train()', { config: ofStep }, { config: configNames });
  checkConfigValues(
    ofStep,
    typeof config === 'function' ? ` \`config({ step: ${step} })\` returned it.` : '',
  );
  checkNoPenalty(ofStep, teacher);
  return withTeacher(ofStep, teacher);
}

/** Checks values early: the service would reject them too, but only after the rollouts of the step. */
function checkConfigValues(config: object, when: string): void {
  if (typeof config !== 'object' || Array.isArray(config))
    throw runOptionError('config', `\`config\` is ${showValue(config)}; pass an object of options.${when}`);
  // The schema does not know fields that only other services accept, and lets them pass.
  const read = rlConfigSchema.safeParse(config);
  const problems = [read.success ? null : problemOf('config', config, read.error)];
  for (const [alias, name] of Object.entries(configFieldAliases)) {
    const value: unknown = Reflect.get(config, alias);
    const { error } = rlConfigSchema.shape[name].safeParse(value);
    if (error) problems.push(problemOf(`config.${alias}`, value, error));
  }
  const first = problems.find((problem) => problem !== null);
  if (first) throw runOptionError('config', `${first}${when}`);
}
