import type { z } from 'zod';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Rollout } from './rollout.ts';
import { RolloutQueue } from './rollout-queue.ts';
import { wholeNumber } from './rollout-settings.ts';
import { type RunRolloutOptions, runRollout } from './run-rollout.ts';

/** Where rollouts run, and how many at a time. One executor may serve several groups, steps and runs. */
export interface RolloutExecutor {
  /**
   * Runs one rollout to its end, when there is room for it; one whose signal aborts ends without waiting for room.
   * Never throws.
   * @param place.order Rollouts with a smaller number go first; equal ones in the order in which they came.
   */
  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    place?: { order?: number },
  ): Promise<Rollout<Outcome>>;
  /** Ends what is left of it: threads, timers. Rollouts that still run end cancelled. */
  close(): Promise<void>;
}

let groupsStarted = 0;

/** A larger number for each group that starts, so that an early group's retries go before a later group. */
export function nextGroupOrder(): number {
  return groupsStarted++;
}

export interface InProcessOptions {
  /** Rollouts in flight at a time. Default 256. */
  concurrency?: number;
}

export const defaultConcurrency = 256;

const inProcessNames = {
  concurrency: true,
} satisfies OptionNames<InProcessOptions>;

/**
 * Runs rollouts in this thread, for environments that mostly wait: for models, tools, other processes. Rollouts that
 * wait for room go in the order in which their groups began.
 * @throws RolloutOptionError
 */
export function inProcess(options: InProcessOptions = {}): RolloutExecutor {
  checkOptionNames('inProcess()', options, inProcessNames);
  const { concurrency = defaultConcurrency } = options;
  const queue = new RolloutQueue(wholeNumber('concurrency', concurrency, 1));
  return {
    run: (task, { order } = {}) =>
      queue.run({ signal: task.signal, order }, (signal) => runRollout({ ...task, signal })),
    close: () => queue.close(),
  };
}
