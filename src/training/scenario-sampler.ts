import { deriveSeed, randomSource } from '../trajectory/index.ts';

/**
 * Draws scenarios without replacement in an order that the seed decides; when all have been drawn, a new epoch begins
 * in another order. What is drawn depends on the seed and the position alone.
 */
export class ScenarioSampler<Scenario> {
  readonly #scenarios: readonly Scenario[];
  readonly #seed: number;
  #epoch = -1;
  #order: Scenario[] = [];

  constructor(scenarios: readonly Scenario[], seed: number) {
    this.#scenarios = scenarios;
    this.#seed = seed;
  }

  /** The `count` scenarios from `position`, counted from the start of the first epoch. */
  at(position: number, count: number): Scenario[] {
    return Array.from({ length: count }, (_, offset) => this.#draw(position + offset));
  }

  #draw(position: number): Scenario {
    const size = this.#scenarios.length;
    const epoch = Math.floor(position / size);
    if (epoch !== this.#epoch) {
      this.#order = shuffle(this.#scenarios, deriveSeed(this.#seed, epoch));
      this.#epoch = epoch;
    }
    const scenario = this.#order[position % size];
    if (scenario === undefined) throw new RangeError(`There is no scenario at position ${position}.`);
    return scenario;
  }
}

/** Fisher and Yates's shuffle. */
function shuffle<Item>(items: readonly Item[], seed: number): Item[] {
  const random = randomSource(seed);
  const shuffled = [...items];
  for (let last = shuffled.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [shuffled[last], shuffled[other]] = [shuffled[other] as Item, shuffled[last] as Item];
  }
  return shuffled;
}
