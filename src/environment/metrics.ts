import { type Trajectory, whyNotSendable } from '../trajectory/index.ts';
import { EnvironmentError } from './errors.ts';
import { describeValue } from './thrown.ts';

/** Number of tool calls that threw, in environments of pieces with tools. */
export const toolErrorMetric = 'tool_errors';

/** Sum of the step rewards; absent if none was set. */
export const stepRewardMetric = 'step_reward';

/** 1 if `cleanup` threw or missed its deadline. */
export const cleanupFailedMetric = 'cleanup_failed';

/** In environments with `onError`: 1 if `onError` returned an outcome, else 0. */
export const scoredErrorMetric = 'scored_errors';

/** With `onUnansweredCall: 'warn'`: number of model calls that got no answer and were not repeated with success. */
export const unansweredCallsMetric = 'unanswered_calls';

/** Metric names that rewards cannot use. */
export const ownMetrics: ReadonlySet<string> = new Set([
  toolErrorMetric,
  stepRewardMetric,
  cleanupFailedMetric,
  scoredErrorMetric,
  unansweredCallsMetric,
  'unexpected_calls',
]);

/**
 * @throws EnvironmentError: `metric_not_finite` for the first metric that is neither a finite number nor a boolean,
 * `trajectory_not_sendable` for what a service would refuse with the whole step.
 */
export function checkTrajectory(trajectory: Trajectory): void {
  for (const [name, value] of Object.entries(trajectory.metrics))
    if (typeof value !== 'boolean' && !Number.isFinite(value))
      throw new EnvironmentError(
        'metric_not_finite',
        `The metric "${name}" is ${describeValue(value)}. Give a finite number, or leave it out. The rollout counts as failed.`,
        { part: name },
      );
  const why = whyNotSendable(trajectory);
  if (why !== undefined)
    throw new EnvironmentError(
      'trajectory_not_sendable',
      `The service would refuse this trajectory: it ${why}. The rollout counts as failed.`,
    );
}
