import { type Caller, FairQueue } from './fair-queue.ts';

/** Why a task is refused: too many wait, too many of its tenant wait, or it has waited too long. */
export type Refusal = 'queue_full' | 'share_full' | 'timed_out';

export interface FairMutexOptions {
  /**
   * How many tasks may wait. Those of one tenant may be as many as are left free: half of the queue where nobody else
   * waits, so that others find room.
   */
  limit: number;
  /** How long a task waits at most. */
  patienceMs: number;
  /** Makes the error of a task that is refused. */
  refusal: (why: Refusal) => Error;
}

interface Waiting {
  begin: () => void;
}

/** Runs tasks one at a time; tenants take turns (see `FairQueue`). */
export class FairMutex {
  readonly #options: FairMutexOptions;
  readonly #queue = new FairQueue<Waiting>();
  #busy = false;

  constructor(options: FairMutexOptions) {
    this.#options = options;
  }

  /** Number of tasks that wait. */
  get waiting(): number {
    return this.#queue.count;
  }

  /**
   * Runs a task when it is its turn. Rejects with `refusal` of the options where there is no room or the wait is too
   * long, and with the signal's reason when that is aborted before the turn, which frees its slot at once.
   */
  async run<Result>(task: () => Promise<Result>, { tenant, signal }: Caller = {}): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#busy) await this.#turn(tenant, signal);
    this.#busy = true;
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      const next = this.#queue.take();
      if (next) next.begin();
      else this.#busy = false;
    }
  }

  #turn(tenant: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    const { limit, patienceMs, refusal } = this.#options;
    const free = limit - this.waiting;
    if (free <= 0) throw refusal('queue_full');
    if (this.#queue.countOf(tenant) >= free) throw refusal('share_full');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { begin: resolve };
    const leave = (error: unknown) => {
      this.#queue.remove((other) => other === waiting);
      reject(error);
    };
    const onAbort = () => leave(signal?.reason);
    const timer = setTimeout(() => leave(refusal('timed_out')), patienceMs).unref();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#queue.add(waiting, { tenant });
    return promise.finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
  }
}
