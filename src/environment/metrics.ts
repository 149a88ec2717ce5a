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

/** Metric names that rewards cannot use. */
export const ownMetrics: ReadonlySet<string> = new Set([
  toolErrorMetric,
  stepRewardMetric,
  cleanupFailedMetric,
  scoredErrorMetric,
  'unexpected_calls',
]);

/** @throws EnvironmentError (`metric_not_finite`) for the first metric that is neither a finite number nor a boolean. */
export function checkMetrics(metrics: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(metrics))
    if (typeof value !== 'boolean' && !Number.isFinite(value))
      throw new EnvironmentError(
        'metric_not_finite',
        `The metric "${name}" is ${describeValue(value)}. Give a finite number, or leave it out. The rollout counts as failed.`,
        { part: name },
      );
}
