import type { z } from 'zod';
import { wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Rollout } from './rollout.ts';
import { RolloutQueue } from './rollout-queue.ts';
import { type RunRolloutOptions, runRollout } from './run-rollout.ts';

/** Where rollouts run, and how many at a time. One executor may serve several groups, steps and runs. */
export interface RolloutExecutor {
  /**
   * Runs one rollout to its end as soon as there is a free slot; one whose signal aborts before ends without a slot.
   * Never throws.
   * @param place.order Rollouts with a smaller number go first; equal ones in the order in which they came.
   */
  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    place?: { order?: number },
  ): Promise<Rollout<Outcome>>;
  /** Frees its threads and timers. Rollouts that still run end cancelled. */
  close(): Promise<void>;
}

export interface InProcessOptions {
  /** Rollouts in flight at a time. Default 256. */
  concurrency?: number | undefined;
}

export const defaultConcurrency = 256;

const inProcessNames = { concurrency: true } satisfies OptionNames<InProcessOptions>;

/**
 * Runs rollouts in this thread, for environments that mostly wait: for models, tools, other processes. Rollouts that
 * wait for a slot go in the order in which their groups began.
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
