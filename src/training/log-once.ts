import { mayHaveActed } from '../client/index.ts';
import { knowsKeys } from './lost-job.ts';
import { type LogTrajectoriesOptions, logTrajectories } from './submit-training.ts';

/**
 * Logs what a run has gathered, and has on disk. A service that knows no idempotency keys, and whose answer was lost,
 * may have stored it or not: it is not sent twice, and the run goes on with a warning.
 */
export async function logOnce(options: LogTrajectoriesOptions): Promise<void> {
  const { model, split } = options;
  try {
    await logTrajectories(options);
  } catch (error) {
    if (knowsKeys(model.client) || !mayHaveActed(error)) throw error;
    process.emitWarning(
      `Trajectories of the split "${split}" may not have been logged with ${model.name}, and are not sent twice. They ` +
        `are in the run directory; the run goes on. ${error.message}`,
      { code: 'martingale_log_unknown' },
    );
  }
}
