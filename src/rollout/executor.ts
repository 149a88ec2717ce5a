import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { TimeSlices } from '../util/time-slices.ts';
import type { Rollout } from './rollout.ts';
import { type RunRolloutOptions, runRollout } from './run-rollout.ts';

/** Decides where rollouts run and how many at a time. Several groups, steps and runs may share one executor. */
export interface RolloutExecutor {
  /**
   * Runs one rollout as soon as a slot is free. If its signal aborts while it waits, it ends at once. Never throws.
   * @param scheduling.order Rollouts with a smaller number start first; equal ones in order of arrival.
   */
  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    scheduling?: { order?: number },
  ): Promise<Rollout<Outcome>>;
  /** Releases threads and timers. Rollouts in flight are cancelled. */
  close(): Promise<void>;
}

export interface InProcessOptions {
  /** Rollouts in flight at a time. Default 256. */
  concurrency?: number | undefined;
}

export const defaultConcurrency = 256;

const inProcessNames = { concurrency: true } satisfies OptionNames<InProcessOptions>;

/**
 * Runs rollouts in this thread. For environments that mostly wait for models, tools or other processes. Waiting
 * rollouts start in the order in which their groups began.
 * @throws OptionError
 */
export function inProcess(options: InProcessOptions = {}): RolloutExecutor {
  checkOptionNames('inProcess()', options, inProcessNames);
  const { concurrency = defaultConcurrency } = options;
  const queue = new RolloutQueue(wholeNumberOption('invalid_rollout_option', 'concurrency', concurrency, 1));
  return {
    run: (task, { order } = {}) =>
      queue.run({ signal: task.signal, order }, (signal) => runRollout({ ...task, signal })),
    close: () => queue.close(),
  };
}

/** Shared by all rollouts: creating a stack trace for each would cost more than the rest of ending it. */
const closed = new MartingaleError('executor_closed', 'The executor was closed.');

interface Waiting {
  order: number;
  start: () => void;
  hasLeft: boolean;
}

/** Limits the number of rollouts in flight. Waiting rollouts start in the order in which their groups began. */
export class RolloutQueue {
  readonly #concurrency: number;
  readonly #slices = new TimeSlices();
  /** Sorted by order. A caller that has left stays in the list until its turn, because many may leave at a time. */
  readonly #waiting: Waiting[] = [];
  #inFlight = 0;
  /** One controller for each running or waiting rollout. Listeners on one shared signal would take quadratic time. */
  readonly #ending = new Set<AbortController>();
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
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
    const onAbort = () => ending.abort(signal?.reason);
    if (this.#closed) ending.abort(closed);
    else if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
    this.#ending.add(ending);
    const isFree = !ending.signal.aborted && this.#inFlight < this.#concurrency;
    if (isFree) this.#inFlight++;
    const hasSlot = isFree || (await this.#waitForSlot(order, ending.signal));
    try {
      // Starting thousands in one tick would block the event loop.
      if (hasSlot && this.#slices.over) await this.#slices.pause();
      return await work(ending.signal);
    } finally {
      if (hasSlot) this.#passSlotOn();
      this.#ending.delete(ending);
      signal?.removeEventListener('abort', onAbort);
      if (this.#ending.size === 0) this.#closed?.resolve();
    }
  }

  /** Aborts all running and waiting rollouts; resolves when they have ended. */
  async close(): Promise<void> {
    this.#closed ??= Promise.withResolvers();
    for (const ending of this.#ending) ending.abort(closed);
    if (this.#ending.size > 0) await this.#closed.promise;
  }

  /** Resolves with whether there is a slot: without one, the signal has aborted. */
  #waitForSlot(order: number, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const leave = () => {
      waiting.hasLeft = true;
      resolve(false);
    };
    const start = () => {
      signal.removeEventListener('abort', leave);
      resolve(true);
    };
    const waiting: Waiting = { order, start, hasLeft: false };
    if (signal.aborted) leave();
    else {
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.splice(this.#waiting.findLastIndex((other) => other.order <= order) + 1, 0, waiting);
    }
    return promise;
  }

  #passSlotOn(): void {
    let next = this.#waiting.shift();
    while (next?.hasLeft) next = this.#waiting.shift();
    if (next) next.start();
    else this.#inFlight--;
  }
}
