import { randomSource } from 'martingale';

/** Random choices from one seeded stream of random numbers. */
export class Dice {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = randomSource(seed);
  }

  chance(probability: number): boolean {
    return this.#next() < probability;
  }

  below(bound: number): number {
    return Math.floor(this.#next() * bound);
  }

  digits(count: number): string {
    return Array.from({ length: count }, () => this.below(10)).join('');
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError('There is nothing to pick from an empty list.');
    return item;
  }
}
