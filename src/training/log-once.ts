import { mayHaveActed, RequestError } from '../client/index.ts';
import { knowsKeys } from './lost-job.ts';
import type { RunDirectory } from './run-directory.ts';
import { type LogTrajectoriesOptions, logTrajectories } from './submit-training.ts';

export interface LogOnceOptions extends LogTrajectoriesOptions {
  directory: RunDirectory;
  /** Of the file that has the groups in the run directory. */
  name: string;
}

/**
 * Logs what a run has gathered, and has on disk. A service that knows no idempotency keys would store it again: what it
 * has stored is not sent by a run that goes on, nor is what it may have stored, of which a warning tells.
 */
export async function logOnce({ directory, name, ...options }: LogOnceOptions): Promise<void> {
  if (knowsKeys(options.model.client)) return logTrajectories(options);
  const before = await directory.readLogging(name);
  if (before === 'stored') return;
  if (before === 'asked') return warn(options, 'The run ended before the service had answered.');
  await directory.writeLogging(name, 'asked');
  try {
    await logTrajectories(options);
  } catch (error) {
    if (mayHaveActed(error)) return warn(options, error.message);
    if (error instanceof RequestError) await directory.writeLogging(name, 'refused');
    throw error;
  }
  await directory.writeLogging(name, 'stored');
}

function warn({ model, split }: LogTrajectoriesOptions, why: string): void {
  process.emitWarning(
    `Trajectories of the split "${split}" may not have been logged with ${model.name}, and are not sent twice. They ` +
      `are in the run directory; the run goes on. ${why}`,
    { code: 'martingale_log_unknown' },
  );
}
