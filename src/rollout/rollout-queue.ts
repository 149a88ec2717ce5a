import PQueue from 'p-queue';
import { MartingaleError } from '../contract/index.ts';
import { TimeSlices } from '../util/time-slices.ts';

/** Shared by all rollouts: creating a stack trace for each would cost more than the rest of ending it. */
const closed = new MartingaleError('executor_closed', 'The executor was closed.');

/** Limits the number of rollouts in flight. Waiting rollouts start in the order in which their groups began. */
export class RolloutQueue {
  readonly #queue: PQueue;
  readonly #slices = new TimeSlices();
  /** One controller for each running or waiting rollout. Listeners on one shared signal would take quadratic time. */
  readonly #ending = new Set<AbortController>();
  #closed = false;

  constructor(concurrency: number) {
    this.#queue = new PQueue({ concurrency });
  }

  /**
   * Calls `work` as soon as a slot is free, or at once if the signal aborts while it waits.
   * @param work Its signal aborts when the caller's signal does, and when the queue closes.
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
    // When a task's signal aborts, p-queue abandons the task and frees its slot. A running rollout still has to clean
    // up and return a result, so the signal for p-queue stops following once the rollout runs.
    const waiting = new AbortController();
    const leave = () => waiting.abort();
    if (ending.signal.aborted) leave();
    else ending.signal.addEventListener('abort', leave, { once: true });
    const begin = async () => {
      ending.signal.removeEventListener('abort', leave);
      // Starting thousands in one tick would block the event loop. p-queue's own `interval` uses the system clock, and
      // stalls when that is set back.
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

  /** Aborts all running and waiting rollouts; resolves when they have ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const ending of this.#ending) ending.abort(closed);
    await this.#queue.onIdle();
  }
}
