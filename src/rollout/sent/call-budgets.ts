import { MartingaleError } from '../../contract/index.ts';
import type { CallBudget, CallSlot } from '../../model/index.ts';
import { type RolloutFailure, toFailure } from '../rollout.ts';
import type { BudgetReply, BudgetRequest } from './sent-rollout.ts';

/** Assigns numbers to call budgets, by which messages refer to them. */
export class BudgetNumbers {
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

/** In the main thread: the slots in call budgets that calls of one worker hold or wait for. */
export class BudgetSlots {
  readonly #budgets: BudgetNumbers;
  readonly #post: (message: BudgetReply) => void;
  readonly #waiting = new Map<number, AbortController>();
  readonly #slots = new Map<number, CallSlot>();

  constructor(budgets: BudgetNumbers, post: (message: BudgetReply) => void) {
    this.#budgets = budgets;
    this.#post = post;
  }

  receive(message: BudgetRequest): void {
    const { call } = message;
    if (message.type === 'enter') void this.#enter(call, message.budget);
    else if (message.type === 'leave') this.#release(call);
    else if (message.type === 'limited') this.#slots.get(call)?.rateLimited();
    else {
      this.#slots.get(call)?.release(message.outcome);
      this.#slots.delete(call);
    }
  }

  /** Releases all slots after the worker has ended. */
  releaseAll(): void {
    for (const call of [...this.#waiting.keys(), ...this.#slots.keys()]) this.#release(call);
  }

  async #enter(call: number, number: number): Promise<void> {
    const leaving = new AbortController();
    this.#waiting.set(call, leaving);
    try {
      const slot = await this.#budgets.get(number)?.acquire(leaving.signal);
      if (!slot) return;
      if (leaving.signal.aborted) return slot.release({ status: 'failed', durationMs: 0 });
      this.#slots.set(call, slot);
      this.#post({ type: 'admitted', call });
    } catch (error) {
      // A caller that aborted already knows.
      if (!leaving.signal.aborted) this.#post({ type: 'refused', call, failure: toFailure(error) });
    } finally {
      this.#waiting.delete(call);
    }
  }

  #release(call: number): void {
    this.#waiting.get(call)?.abort();
    this.#slots.get(call)?.release({ status: 'failed', durationMs: 0 });
    this.#slots.delete(call);
  }
}

/** In a worker: access to the main thread's budgets, by messages. */
export class RemoteBudgets {
  readonly #post: (message: BudgetRequest) => void;
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>();
  #calls = 0;

  constructor(post: (message: BudgetRequest) => void) {
    this.#post = post;
  }

  budget(number: number): CallBudget {
    return { acquire: (signal) => this.#acquire(number, signal) };
  }

  admit(call: number): void {
    this.#waiting.get(call)?.resolve();
  }

  refuse(call: number, { code, message }: RolloutFailure): void {
    this.#waiting.get(call)?.reject(new MartingaleError(code, message));
  }

  async #acquire(budget: number, signal: AbortSignal | undefined): Promise<CallSlot> {
    signal?.throwIfAborted();
    const call = this.#calls++;
    const admission = Promise.withResolvers<void>();
    const onAbort = () => {
      // If the main thread has just granted a slot, this message makes it release the slot.
      this.#post({ type: 'leave', call });
      admission.reject(signal?.reason);
    };
    this.#waiting.set(call, admission);
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#post({ type: 'enter', call, budget });
    try {
      await admission.promise;
    } finally {
      this.#waiting.delete(call);
      signal?.removeEventListener('abort', onAbort);
    }
    return {
      rateLimited: () => this.#post({ type: 'limited', call }),
      release: (outcome) => this.#post({ type: 'release', call, outcome }),
    };
  }
}
