import { MartingaleError } from '../../contract/index.ts';
import type { CallBudget, CallPlace } from '../../model/index.ts';
import type { RolloutFailure } from '../rollout.ts';
import type { FromThread } from './messages.ts';

/** Within a thread: the budgets of the main thread, asked by messages. */
export class RemoteBudgets {
  readonly #post: (message: FromThread) => void;
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>();
  #calls = 0;

  constructor(post: (message: FromThread) => void) {
    this.#post = post;
  }

  budget(number: number): CallBudget {
    return { acquire: (signal) => this.#acquire(number, signal) };
  }

  /** The main thread gives the call its place. */
  admit(call: number): void {
    this.#waiting.get(call)?.resolve();
  }

  refuse(call: number, { code, message }: RolloutFailure): void {
    this.#waiting.get(call)?.reject(new MartingaleError(code, message));
  }

  async #acquire(budget: number, signal: AbortSignal | undefined): Promise<CallPlace> {
    signal?.throwIfAborted();
    const call = this.#calls++;
    const admission = Promise.withResolvers<void>();
    const onAbort = () => {
      // Where the place is under way to us, the message tells the main thread to take it back.
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
