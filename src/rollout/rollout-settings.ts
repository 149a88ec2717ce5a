import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import { type Environment, isEnvironment } from '../environment/index.ts';
import { showValue } from '../util/complaint.ts';
import type { OtherWords } from '../util/option-names.ts';

/** An option of the executors, of runGroup() or of runGroups() that cannot be. */
export class RolloutOptionError extends MartingaleError {
  readonly option: string;

  constructor(option: string, value: unknown, remedy: string) {
    super('invalid_rollout_option', `${option} is ${showValue(value)}. ${remedy}`);
    this.option = option;
  }
}

/** @throws RolloutOptionError where the value is not a whole number from `least` up. */
export function wholeNumber(option: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new RolloutOptionError(option, value, `Give a whole number from ${least} up.`);
}

/** @throws RolloutOptionError where the value is not above 0; Infinity is. */
export function milliseconds(option: string, value: number): number {
  if (value > 0) return value;
  throw new RolloutOptionError(option, value, 'Give a time in milliseconds above 0.');
}

const inEnvironment =
  'Limits of a rollout belong to its environment: `defineEnvironment({ limits: { turns } })`.';

/** Where the limits of rollouts are, for functions that run them. */
export const limitWords = { maxturns: inEnvironment, limits: inEnvironment } satisfies OtherWords;

/** An option that nothing runs without, and that is not what it has to be. */
export interface MissingEssential {
  option: string;
  value: unknown;
  remedy: string;
}

/** The first of what rollouts need, for callers whom no type has checked; null where they have it all. */
export function missingEssential(given: {
  environment: unknown;
  scenarios: unknown;
  model: unknown;
}): MissingEssential | null {
  const { environment, scenarios, model } = given;
  if (!Array.isArray(scenarios))
    return { option: 'scenarios', value: scenarios, remedy: 'Give a list of scenarios.' };
  if (!isModel(model))
    return {
      option: 'model',
      value: model,
      remedy: 'Give a model, such as that of `openModel()`, or a `externalModel()`.',
    };
  return missingEnvironment(environment);
}

/** As `missingEssential`, of the environment alone. */
export function missingEnvironment(environment: unknown): MissingEssential | null {
  if (isEnvironment(environment)) return null;
  return { option: 'environment', value: environment, remedy: 'Give one that `defineEnvironment()` made.' };
}

function isModel(model: unknown): boolean {
  if (typeof model !== 'object' || model === null) return false;
  return 'name' in model && 'languageModel' in model && 'endpoint' in model;
}

/** A scenario does not fit the environment's schema. `cause` is zod's error. */
export class ScenarioError extends MartingaleError {
  constructor(index: number, environment: string, cause: Error) {
    super(
      'invalid_scenario',
      `Scenario ${index} does not fit the schema of environment "${environment}": ${cause.message}`,
      { cause },
    );
  }
}

/**
 * Scenarios as the environment's schema reads them.
 * @throws ScenarioError that names the first that does not fit.
 */
export async function parseScenarios<Schema extends z.ZodType, Outcome>(
  { name, scenario: schema }: Environment<Schema, Outcome>,
  scenarios: readonly z.input<Schema>[],
): Promise<z.output<Schema>[]> {
  const parsed: z.output<Schema>[] = [];
  for (const [index, scenario] of scenarios.entries()) {
    const result = await schema.safeParseAsync(scenario);
    if (!result.success) throw new ScenarioError(index, name, result.error);
    parsed.push(result.data);
  }
  return parsed;
}
