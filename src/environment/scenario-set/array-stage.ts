import { z } from 'zod';
import { sha256 } from '../../util/json.ts';
import { positionError } from '../errors.ts';
import { type KeyFunction, keyWith } from './scenario-key.ts';
import { type DrawnScenario, readState, type Stage } from './stage.ts';

const stateSchema = z.int().nonnegative();

/** Scenarios in memory. */
export function arrayStage<Scenario>(
  scenarios: readonly Scenario[],
  key: KeyFunction<Scenario> | undefined,
): Stage<Scenario> {
  const items = scenarios.map((scenario) => new KeyedItem(scenario, key));
  const size = items.length;
  let digest: string | undefined;
  return {
    extent: 'finite',
    size,
    learns: false,
    describe: () => {
      digest ??= sha256(JSON.stringify(items.map((item) => item.key))).slice(0, 20);
      return { kind: 'array', size, scenarios: digest };
    },
    where: (test) =>
      arrayStage(
        items.filter(test).map(({ scenario }) => scenario),
        key,
      ),
    open: () => {
      let at = 0;
      return {
        next: async () => {
          const item = items[at];
          if (!item) return null;
          at++;
          return { scenario: item.scenario, key: item.key };
        },
        state: () => at,
        restore: async (state) => {
          at = readState('array', stateSchema, state);
          if (at > size) throw positionError(`The position is at scenario ${at} of an array of ${size}.`);
        },
      };
    },
  };
}

/** A scenario whose key is computed on first use: hashing a large array at once would block the event loop. */
class KeyedItem<Scenario> implements DrawnScenario<Scenario> {
  readonly scenario: Scenario;
  readonly #keyFunction: KeyFunction<Scenario> | undefined;
  #key: string | undefined;

  constructor(scenario: Scenario, keyFunction: KeyFunction<Scenario> | undefined) {
    this.scenario = scenario;
    this.#keyFunction = keyFunction;
  }

  get key(): string {
    this.#key ??= keyWith(this.scenario, this.#keyFunction);
    return this.#key;
  }
}
