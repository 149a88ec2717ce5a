import { EnvironmentError } from './errors.ts';
import { describeValue } from './thrown.ts';

/** Number of a rollout's tools that threw, in environments of pieces with tools. */
export const toolErrorMetric = 'tool_errors';

/** Sum of the step rewards, where any were given. */
export const stepRewardMetric = 'step_reward';

/** 1 where the clean-up failed or did not end. */
export const cleanupFailedMetric = 'cleanup_failed';

/** 1 where `onError` made an outcome of an error, 0 where it did not, in environments that have it. */
export const scoredErrorMetric = 'scored_errors';

/** Names of metrics that rewards cannot have. */
export const ownMetrics: ReadonlySet<string> = new Set([
  toolErrorMetric,
  stepRewardMetric,
  cleanupFailedMetric,
  scoredErrorMetric,
  'unexpected_calls',
]);

/** @throws EnvironmentError (`metric_not_finite`) for the first metric that is no finite number or boolean. */
export function checkMetrics(metrics: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(metrics))
    if (typeof value !== 'boolean' && !Number.isFinite(value))
      throw new EnvironmentError(
        'metric_not_finite',
        `The metric "${name}" is ${describeValue(value)}; give a finite number, or leave it out. The rollout counts as failed.`,
        { part: name },
      );
}
