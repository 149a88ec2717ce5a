import { MartingaleError } from '../contract/index.ts';
import { describeValue } from './describe-thrown.ts';

/** A metric of a trajectory is NaN, infinite, or neither number nor boolean, which the wire cannot carry. */
export class MetricError extends MartingaleError {
  readonly metric: string;

  constructor(metric: string, value: unknown) {
    super(
      'metric_not_finite',
      `The metric "${metric}" is ${describeValue(value)}; give a finite number, or leave it out. The rollout counts as failed.`,
    );
    this.metric = metric;
  }
}

/** @throws MetricError for the first metric that is no finite number or boolean. */
export function checkMetrics(metrics: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(metrics))
    if (typeof value !== 'boolean' && !Number.isFinite(value)) throw new MetricError(name, value);
}
