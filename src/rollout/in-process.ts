import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { wholeNumber } from './errors.ts';
import type { RolloutExecutor } from './executor.ts';
import { RolloutQueue } from './rollout-queue.ts';
import { runRollout } from './run-rollout.ts';

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
