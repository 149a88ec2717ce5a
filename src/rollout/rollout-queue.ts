import PQueue from 'p-queue';
import { MartingaleError } from '../contract/index.ts';
import { TimeSlices } from '../util/time-slices.ts';

/** One for all: a stack trace for each rollout would cost more than the rest of its ending. */
const closed = new MartingaleError('executor_closed', 'The executor was closed.');

/** Slots for so many rollouts at a time. Those that wait go in the order in which their groups began. */
export class RolloutQueue {
  readonly #queue: PQueue;
  readonly #slices = new TimeSlices();
  /** Ends each rollout that runs or waits. A listener for each on one signal would take quadratic time. */
  readonly #ending = new Set<AbortController>();
  #closed = false;

  constructor(concurrency: number) {
    this.#queue = new PQueue({ concurrency });
  }

  /**
   * Calls `work` as soon as there is a free slot, or at once where the signal aborts before.
   * @param work Its signal aborts when the caller's does and when the queue closes.
   */
  async run<Result>(
    {
      signal,
      order = Number.POSITIVE_INFINITY,
    }: { signal: AbortSignal | undefined; order?: number | undefined },
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const ending = new AbortController();
    const follow = () => ending.abort(signal?.reason);
    if (this.#closed) ending.abort(closed);
    else if (signal?.aborted) follow();
    else signal?.addEventListener('abort', follow, { once: true });
    this.#ending.add(ending);
    // p-queue abandons a task whose signal aborts, and frees its slot, while a rollout still cleans up and has a result
    // to give. So its signal is one that no longer follows once the rollout runs.
    const waiting = new AbortController();
    const leave = () => waiting.abort();
    if (ending.signal.aborted) leave();
    else ending.signal.addEventListener('abort', leave, { once: true });
    const begin = async () => {
      ending.signal.removeEventListener('abort', leave);
      // Thousands that begin at once would hold the event loop. p-queue's own `interval` follows the machine's clock,
      // and stands still where that is set back.
      if (this.#slices.over) await this.#slices.pause();
      return work(ending.signal);
    };
    try {
      return await this.#queue.add(begin, { priority: -order, signal: waiting.signal });
    } catch (error) {
      if (!waiting.signal.aborted) throw error;
      return await work(ending.signal);
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
}
