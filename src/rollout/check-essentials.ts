import { isEnvironment } from '../environment/index.ts';
import type { OtherWords } from '../util/option-names.ts';

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
