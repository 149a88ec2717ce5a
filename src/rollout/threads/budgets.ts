import type { CallBudget } from '../../model/index.ts';

/** Call budgets by the numbers that messages name them by. */
export class Budgets {
  readonly #numbers = new Map<CallBudget, number>();
  readonly #budgets: CallBudget[] = [];

  numberOf(budget: CallBudget): number {
    const known = this.#numbers.get(budget);
    if (known !== undefined) return known;
    this.#numbers.set(budget, this.#budgets.length);
    return this.#budgets.push(budget) - 1;
  }

  get(number: number): CallBudget | undefined {
    return this.#budgets[number];
  }
}
