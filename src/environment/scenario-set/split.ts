import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { ArrayStage } from './array-stage.ts';
import { ScenarioSetError } from './errors.ts';
import { type KeyFunction, shareOf } from './scenario-key.ts';
import type { DrawnScenario } from './scenario-source.ts';
import type { Stage } from './stage.ts';
import { TransformStage } from './transform-stage.ts';

export interface SplitOptions<Scenario> {
  /** What is split by: scenarios that it gives the same for stay together. Default: the scenario's key. */
  by?: KeyFunction<Scenario>;
  /** Another seed gives another split. Default 0. */
  seed?: number;
}

/**
 * Which split a scenario is in: a hash of it decides, so that neither order nor other scenarios change it.
 * @throws ScenarioSetError for shares that are not above 0 or do not add up to 1.
 */
export function splitter<Scenario>(
  shares: Readonly<Record<string, number>>,
  options: SplitOptions<Scenario>,
): (drawn: DrawnScenario<Scenario>) => string {
  checkOptionNames('split()', options, { by: true, seed: true } satisfies OptionNames<
    SplitOptions<Scenario>
  >);
  const { by, seed = 0 } = options;
  // Sorted: writing the shares in another order gives the same splits.
  const names = Object.keys(shares).sort();
  for (const name of names) {
    const share = shares[name];
    if (share === undefined || !(share > 0 && share <= 1))
      throw new ScenarioSetError(
        `The share of split "${name}" is ${share}; give a number above 0 and up to 1.`,
      );
  }
  const sum = names.reduce((total, name) => total + (shares[name] ?? 0), 0);
  if (Math.abs(sum - 1) > 1e-9) {
    throw new ScenarioSetError(`The shares of the splits add up to ${sum}; they must add up to 1.`);
  }
  return ({ scenario, key }) => {
    const place = shareOf(`${seed}/${by ? by(scenario) : key}`);
    let end = 0;
    return (
      names.find((name) => {
        end += shares[name] ?? 0;
        return place < end;
      }) ??
      names.at(-1) ??
      ''
    );
  };
}

/** The part of a stage that is in one split. */
export function splitStage<Scenario>(
  of: Stage<Scenario>,
  name: string,
  splitOf: (drawn: DrawnScenario<Scenario>) => string,
  identity: { shares: Readonly<Record<string, number>>; seed: number },
): Stage<Scenario> {
  if (of instanceof ArrayStage) return of.where((drawn: DrawnScenario<Scenario>) => splitOf(drawn) === name);
  return new TransformStage({
    of,
    size: null,
    description: { kind: 'split', name, ...identity },
    apply: async (drawn) => (splitOf(drawn) === name ? drawn : null),
  });
}

/** A value for each name, under it. */
export function mapNames<Name extends string, Value>(
  names: Readonly<Record<Name, unknown>>,
  give: (name: string) => Value,
): Record<Name, Value>;
export function mapNames<Value>(
  names: Readonly<Record<string, unknown>>,
  give: (name: string) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.keys(names).map((name) => [name, give(name)]));
}
