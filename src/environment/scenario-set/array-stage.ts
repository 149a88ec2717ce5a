import { z } from 'zod';
import { positionError } from '../errors.ts';
import { digest, type KeyFunction, keyWith } from './scenario-key.ts';
import type { DrawnScenario } from './scenario-source.ts';
import { type Cursor, readState, type Stage, type StageDescription } from './stage.ts';

const stateSchema = z.int().nonnegative();

/** Scenarios in memory. */
export class ArrayStage<Scenario> implements Stage<Scenario> {
  readonly extent = 'finite';
  readonly learns = false;
  readonly #items: readonly KeyedItem<Scenario>[];
  readonly #key: KeyFunction<Scenario> | undefined;
  #digest: string | undefined;

  constructor(items: readonly Scenario[], key: KeyFunction<Scenario> | undefined) {
    this.#items = items.map((scenario) => new KeyedItem(scenario, key));
    this.#key = key;
  }

  get size(): number {
    return this.#items.length;
  }

  /** A stage with the scenarios that pass the test. */
  where(test: (drawn: DrawnScenario<Scenario>) => boolean): ArrayStage<Scenario> {
    return new ArrayStage(
      this.#items.filter(test).map(({ scenario }) => scenario),
      this.#key,
    );
  }

  describe(): StageDescription {
    this.#digest ??= digest(JSON.stringify(this.#items.map(({ key }) => key))).slice(0, 20);
    return { kind: 'array', size: this.size, scenarios: this.#digest };
  }

  open(): Cursor<Scenario> {
    let at = 0;
    return {
      next: async () => {
        const item = this.#items[at];
        if (!item) return null;
        at++;
        return { scenario: item.scenario, key: item.key };
      },
      state: () => at,
      restore: async (state) => {
        at = readState('array', stateSchema, state);
        if (at > this.size)
          throw positionError(`The position is at scenario ${at} of an array of ${this.size}.`);
      },
      observe: () => undefined,
      reports: () => [],
      close: async () => undefined,
    };
  }
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
