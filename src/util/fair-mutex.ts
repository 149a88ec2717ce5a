import { type Caller, FairQueue } from './fair-queue.ts';

/** Why a task is refused: the queue is full, its tenant's share is full, or it waited too long. */
export type Refusal = 'queue_full' | 'share_full' | 'timed_out';

interface FairMutexOptions {
  /**
   * Most tasks that may wait. One tenant may have as many as slots are free: half of the queue if no other tenant waits.
   */
  maxWaiting: number;
  /** Longest wait of a task, in milliseconds. */
  maxWaitMs: number;
  /** Makes the error for a refused task. */
  refusal: (why: Refusal) => Error;
}

interface Waiter {
  start: () => void;
}

/** Runs tasks one at a time. Tenants alternate (see `FairQueue`). */
export class FairMutex {
  readonly #options: FairMutexOptions;
  readonly #queue = new FairQueue<Waiter>();
  #busy = false;

  constructor(options: FairMutexOptions) {
    this.#options = options;
  }

  /** Number of waiting tasks. */
  get waiting(): number {
    return this.#queue.count;
  }

  /**
   * Runs a task once the tasks before it have ended. Rejects with the `refusal` error if the queue is full or the
   * wait is too long. Rejects with the signal's reason if it aborts during the wait; the task's slot is free at once.
   */
  async run<Result>(task: () => Promise<Result>, { tenant, signal }: Caller = {}): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#busy) await this.#wait(tenant, signal);
    this.#busy = true;
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#queue.take();
      if (next) next.start();
      else this.#busy = false;
    }
  }

  #wait(tenant: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    const { maxWaiting, maxWaitMs, refusal } = this.#options;
    const free = maxWaiting - this.waiting;
    if (free <= 0) throw refusal('queue_full');
    if (this.#queue.countOf(tenant) >= free) throw refusal('share_full');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { start: resolve };
    const leave = (error: unknown) => {
      this.#queue.remove((other) => other === waiter);
      reject(error);
    };
    const onAbort = () => leave(signal?.reason);
    const timer = setTimeout(() => leave(refusal('timed_out')), maxWaitMs).unref();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#queue.add(waiter, { tenant });
    return promise.finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
  }
}
