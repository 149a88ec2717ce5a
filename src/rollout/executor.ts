import type { z } from 'zod';
import { wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Rollout } from './rollout.ts';
import { RolloutQueue } from './rollout-queue.ts';
import { type RunRolloutOptions, runRollout } from './run-rollout.ts';

/** Decides where rollouts run and how many at a time. Several groups, steps and runs may share one executor. */
export interface RolloutExecutor {
  /**
   * Runs one rollout as soon as a slot is free. If its signal aborts while it waits, it ends at once. Never throws.
   * @param place.order Rollouts with a smaller number start first; equal ones in order of arrival.
   */
  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    place?: { order?: number },
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
