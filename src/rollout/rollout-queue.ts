import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import { MartingaleError } from '../contract/index.ts';

/** One for all: a stack trace for each rollout would cost more than the rest of its ending. */
const closed = new MartingaleError('executor_closed', 'The executor was closed.');

/** Room for so many rollouts at a time. Those that wait go in the order in which their groups began. */
export class RolloutQueue {
  readonly #queue: PQueue;
  /** Ends each rollout that runs or waits. A listener for each on one signal would take quadratic time. */
  readonly #ending = new Set<AbortController>();
  readonly #starts = new PacedStarts();
  #closed = false;

  constructor(concurrency: number) {
    this.#queue = new PQueue({ concurrency });
  }

  /**
   * Calls `work` when there is room, or at once where the signal aborts before; in the async context of the caller.
   * @param work Is given a signal that follows the caller's, and the end of the queue.
   */
  async run<Result>(
    { signal, order }: { signal: AbortSignal | undefined; order: number | undefined },
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const ending = new AbortController();
    const follow = () => ending.abort(signal?.reason);
    if (this.#closed) ending.abort(closed);
    else if (signal?.aborted) follow();
    else signal?.addEventListener('abort', follow, { once: true });
    this.#ending.add(ending);
    try {
      return await this.#whenRoom(ending.signal, order, work);
    } finally {
      this.#ending.delete(ending);
      signal?.removeEventListener('abort', follow);
    }
  }

  /** Aborts what runs and waits; resolves when it has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const ending of this.#ending) ending.abort(closed);
    await this.#queue.onIdle();
  }

  async #whenRoom<Result>(
    signal: AbortSignal,
    order: number | undefined,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    if (signal.aborted) return work(signal);
    // A queue starts a task in the async context of whichever task ended before it.
    const inScope = AsyncLocalStorage.snapshot();
    const { promise, resolve } = Promise.withResolvers<Result>();
    let hasBegun = false;
    const begin = (): Promise<Result> | undefined => {
      // The turn of one that has ended while it waited.
      if (hasBegun) return undefined;
      hasBegun = true;
      signal.removeEventListener('abort', begin);
      const result = inScope(() => work(signal));
      resolve(result);
      return result;
    };
    signal.addEventListener('abort', begin, { once: true });
    const priority = order === undefined ? Number.NEGATIVE_INFINITY : -order;
    // Who waits hears of a failure by `promise`.
    const inTurn = () => {
      const later = this.#starts.next();
      return later ? later.then(begin) : begin();
    };
    this.#queue.add(inTurn, { priority }).catch(() => undefined);
    return promise;
  }
}

/** Rollouts that begin in one turn of the event loop. Thousands at once would keep it from everything else. */
const startsPerTurn = 128;

/** Spreads what begins over turns of the event loop, so that timers, sockets and signals are heard in between. */
export class PacedStarts {
  #thisTurn = 0;
  #turn: Promise<void> | undefined;

  /** Nothing where there is room in this turn, else what resolves in a later one that has room. */
  next(): Promise<void> | undefined {
    if (this.#take()) return undefined;
    return this.#wait();
  }

  async #wait(): Promise<void> {
    do await this.#turn;
    while (!this.#take());
  }

  #take(): boolean {
    this.#turn ??= nextTurn().then(() => {
      this.#thisTurn = 0;
      this.#turn = undefined;
    });
    if (this.#thisTurn >= startsPerTurn) return false;
    this.#thisTurn++;
    return true;
  }
}
