import {
  cleanupFailedMetric,
  describeThrown,
  EnvironmentError,
  type OpenEnvironment,
} from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { warn } from '../util/warning.ts';

/**
 * Cleans up after a rollout. If the set-up is still running, it may take up to `timeoutMs` more; if it finishes even
 * later, the clean-up runs then without being awaited. Never throws: errors go into the trajectory's metrics and logs.
 */
export async function cleanUp<Outcome>(
  opening: Promise<OpenEnvironment<Outcome>>,
  timeoutMs: number,
  trajectory: Trajectory,
): Promise<void> {
  const failed = (error: unknown) => {
    // The trajectory can no longer be changed.
    if (trajectory.isSealed) {
      warn(
        'martingale_cleanup_failed',
        `The clean-up of a rollout failed, long after its end: ${describeThrown(error)}`,
      );
      return;
    }
    trajectory.metrics[cleanupFailedMetric] = 1;
    trajectory.logs.push(`The clean-up failed: ${describeThrown(error)}`);
  };
  const within = <Result>(what: string, work: (signal: AbortSignal) => Promise<Result>) =>
    withDeadline(
      {
        timeoutMs,
        signal: undefined,
        timedOut: () =>
          new EnvironmentError(
            'cleanup_timeout',
            `${what} within ${timeoutMs} ms; raise \`cleanupTimeoutMs\`.`,
          ),
      },
      work,
    );
  // If the set-up threw, there is no state to clean up.
  const opened = opening.catch(() => undefined);
  const cleaned = opened.then((environment) =>
    environment ? within('It did not end', (signal) => environment.close(signal)).catch(failed) : undefined,
  );
  await within('The set-up had not ended', () => opened).then(() => cleaned, failed);
}
