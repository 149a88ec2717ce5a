import type { CallPlace } from '../../model/index.ts';
import { toFailure } from '../failure.ts';
import type { Budgets } from './budgets.ts';
import type { FromThread, ToThread } from './messages.ts';

type BudgetMessage = Extract<FromThread, { type: 'enter' | 'leave' | 'limited' | 'release' }>;

/** In the main thread: the places in call budgets that one thread's calls have or wait for. */
export class LentPlaces {
  readonly #budgets: Budgets;
  readonly #post: (message: ToThread) => void;
  readonly #waiting = new Map<number, AbortController>();
  readonly #places = new Map<number, CallPlace>();

  constructor(budgets: Budgets, post: (message: ToThread) => void) {
    this.#budgets = budgets;
    this.#post = post;
  }

  receive(message: BudgetMessage): void {
    const { call } = message;
    if (message.type === 'enter') void this.#enter(call, message.budget);
    else if (message.type === 'leave') this.#takeBack(call);
    else if (message.type === 'limited') this.#places.get(call)?.rateLimited();
    else {
      this.#places.get(call)?.release(message.outcome);
      this.#places.delete(call);
    }
  }

  /** The thread is gone, and its calls with it. */
  takeBackAll(): void {
    for (const call of [...this.#waiting.keys(), ...this.#places.keys()]) this.#takeBack(call);
  }

  async #enter(call: number, number: number): Promise<void> {
    const leaving = new AbortController();
    this.#waiting.set(call, leaving);
    try {
      const place = await this.#budgets.get(number)?.acquire(leaving.signal);
      if (!place) return;
      if (leaving.signal.aborted) return place.release({ status: 'failed', durationMs: 0 });
      this.#places.set(call, place);
      this.#post({ type: 'admitted', call });
    } catch (error) {
      // A caller that left has been told by its own signal.
      if (!leaving.signal.aborted) this.#post({ type: 'refused', call, failure: toFailure(error) });
    } finally {
      this.#waiting.delete(call);
    }
  }

  #takeBack(call: number): void {
    this.#waiting.get(call)?.abort();
    this.#places.get(call)?.release({ status: 'failed', durationMs: 0 });
    this.#places.delete(call);
  }
}
