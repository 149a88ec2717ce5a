import { OptionError } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { ScenarioError } from '../errors.ts';
import { ArrayStage } from './array-stage.ts';
import { type KeyFunction, shareOf } from './scenario-key.ts';
import type { DrawnScenario } from './scenario-source.ts';
import { breathe, type Cursor, drawsPerBreath, type Stage, type StageDescription } from './stage.ts';

/** After this many scenarios in a row that do not pass, an endless set is refused. */
const mostUnseen = 1_000_000;

interface TransformOptions<From, To> {
  of: Stage<From>;
  /** Number of draws of a pass; null if the transformation leaves scenarios out. */
  size: number | null;
  description: StageDescription;
  /** Null leaves the scenario out. */
  apply: (drawn: DrawnScenario<From>) => Promise<DrawnScenario<To> | null>;
}

/** Changes or leaves out scenarios one by one, without a state. */
export class TransformStage<From, To> implements Stage<To> {
  readonly size: number | null;
  readonly #options: TransformOptions<From, To>;

  constructor(options: TransformOptions<From, To>) {
    this.size = options.size;
    this.#options = options;
  }

  get extent() {
    return this.#options.of.extent;
  }

  get learns(): boolean {
    return this.#options.of.learns;
  }

  describe(): StageDescription {
    return { ...this.#options.description, of: this.#options.of.describe() };
  }

  open(epoch: number): Cursor<To> {
    const { of, apply } = this.#options;
    const upstream = of.open(epoch);
    return {
      next: async () => {
        for (let unseen = 1; ; unseen++) {
          const drawn = await upstream.next();
          if (!drawn) return null;
          const changed = await apply(drawn);
          if (changed) return changed;
          if (unseen === mostUnseen) {
            throw new ScenarioError(
              'invalid_scenario_set',
              `\`${this.#options.description.kind}\` let none of ${mostUnseen} scenarios in a row through: the set may ` +
                'have none that fits. Look at the filter or the split.',
            );
          }
          if (unseen % drawsPerBreath === 0) await breathe();
        }
      },
      state: () => upstream.state(),
      restore: (state) => upstream.restore(state),
      observe: (results) => upstream.observe(results),
      reports: () => upstream.reports(),
      close: () => upstream.close(),
    };
  }
}

export interface SplitOptions<Scenario> {
  /** Scenarios with the same value stay in the same split. Default: the scenario's key. */
  by?: KeyFunction<Scenario>;
  /** Seed of the split. Default 0. */
  seed?: number;
}

/**
 * Returns the split of a scenario, by a hash of its key: neither the order nor other scenarios change it.
 * @throws OptionError for shares that are not above 0 or do not add up to 1.
 */
export function splitter<Scenario>(
  shares: Readonly<Record<string, number>>,
  options: SplitOptions<Scenario>,
): (drawn: DrawnScenario<Scenario>) => string {
  checkOptionNames('split()', options, { by: true, seed: true } satisfies OptionNames<
    SplitOptions<Scenario>
  >);
  const { by, seed = 0 } = options;
  // Sorted, so that the order of the shares does not change the splits.
  const names = Object.keys(shares).sort();
  for (const name of names) {
    const share = shares[name];
    if (share === undefined || !(share > 0 && share <= 1))
      throw new OptionError(
        'invalid_scenario_set',
        `The share of split "${name}" is ${share}; give a number above 0 and up to 1.`,
        { option: `shares.${name}`, value: share },
      );
  }
  const sum = names.reduce((total, name) => total + (shares[name] ?? 0), 0);
  if (Math.abs(sum - 1) > 1e-9) {
    throw new OptionError(
      'invalid_scenario_set',
      `The shares of the splits add up to ${sum}; they must add up to 1.`,
      { option: 'shares', value: shares },
    );
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

/** The scenarios of a stage that are in one split. */
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

/** An object with the same names and new values. */
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
