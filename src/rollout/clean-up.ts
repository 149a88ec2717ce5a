import { MartingaleError } from '../contract/index.ts';
import { cleanupFailedMetric, describeThrown, type OpenEnvironment } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { withDeadline } from '../util/deadline.ts';

class CleanupTimeoutError extends MartingaleError {
  constructor(what: string, timeoutMs: number) {
    super('cleanup_timeout', `${what} within ${timeoutMs} ms; raise \`cleanupTimeoutMs\`.`);
  }
}

/**
 * Cleans up what was set up for a rollout that has ended. Set-up that is still under way has as long as the clean-up
 * itself; should it give a state later than that, the clean-up runs then, and nobody waits for it. Never throws: what
 * goes wrong stands in the trajectory.
 */
export async function cleanUp<Outcome>(
  opening: Promise<OpenEnvironment<Outcome>>,
  timeoutMs: number,
  trajectory: Trajectory,
): Promise<void> {
  const failed = (error: unknown) => {
    // Its trajectory was handed over meanwhile.
    if (trajectory.isSealed) {
      process.emitWarning(`The clean-up of a rollout failed, long after its end: ${describeThrown(error)}`, {
        type: 'MartingaleWarning',
        code: 'cleanup_failed',
      });
      return;
    }
    trajectory.metrics[cleanupFailedMetric] = 1;
    trajectory.logs.push(`The clean-up failed: ${describeThrown(error)}`);
  };
  const within = <Result>(what: string, work: (signal: AbortSignal) => Promise<Result>) =>
    withDeadline(
      { timeoutMs, signal: undefined, timedOut: () => new CleanupTimeoutError(what, timeoutMs) },
      work,
    );
  // A set-up that threw gave no state to clean up.
  const opened = opening.catch(() => undefined);
  const cleaned = opened.then((environment) =>
    environment ? within('It did not end', (signal) => environment.close(signal)).catch(failed) : undefined,
  );
  await within('The set-up had not ended', () => opened).then(() => cleaned, failed);
}
