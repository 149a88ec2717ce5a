import type { AdaptiveLimit } from './adaptive-limit.ts';
import type { CallBudgetStats, CallOutcome, CallPlace, MeteredCallBudget } from './call-budget.ts';
import { CallQueue } from './call-queue.ts';

/** A queue before the model; its limit stays, or follows what comes of the calls. */
export class QueuedBudget implements MeteredCallBudget {
  readonly #queue: CallQueue;
  readonly #adaptive: AdaptiveLimit | undefined;

  constructor(limit: number | AdaptiveLimit) {
    this.#adaptive = typeof limit === 'number' ? undefined : limit;
    this.#queue = new CallQueue(typeof limit === 'number' ? limit : limit.value);
  }

  async acquire(signal?: AbortSignal): Promise<CallPlace> {
    await this.#queue.enter(signal);
    const epoch = this.#adaptive?.epoch ?? 0;
    let isReleased = false;
    return {
      rateLimited: () => this.#learn((limit) => limit.rateLimited(epoch)),
      release: (outcome) => {
        if (isReleased) return;
        isReleased = true;
        this.#learn((limit) => this.#hear(limit, epoch, outcome));
        this.#queue.leave();
      },
    };
  }

  stats(): CallBudgetStats {
    const { limit, inFlight, waiting, peak } = this.#queue;
    const decreases = { rateLimited: 0, latency: 0, ...this.#adaptive?.decreases };
    return { limit, inFlight, waiting, peak, decreases };
  }

  #hear(limit: AdaptiveLimit, epoch: number, { status, durationMs }: CallOutcome): void {
    const isFull = this.#queue.waiting > 0 || this.#queue.inFlight >= this.#queue.limit;
    if (status === 'answered') limit.answered(epoch, { durationMs, isFull });
    if (status === 'rate_limited') limit.rateLimited(epoch);
  }

  #learn(from: (limit: AdaptiveLimit) => void): void {
    if (!this.#adaptive) return;
    from(this.#adaptive);
    if (this.#queue.limit !== this.#adaptive.value) this.#queue.limit = this.#adaptive.value;
  }
}
