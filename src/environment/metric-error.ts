import { MartingaleError } from '../contract/index.ts';

/** A metric of a trajectory is NaN or infinite, which the wire cannot carry. */
export class MetricError extends MartingaleError {
  readonly metric: string;

  constructor(metric: string, value: number) {
    super(
      'metric_not_finite',
      `The metric "${metric}" is ${value}; give a finite number, or leave it out. The rollout counts as failed.`,
    );
    this.metric = metric;
  }
}

/** @throws MetricError for the first metric that is not finite. */
export function checkMetrics(metrics: Readonly<Record<string, number | boolean>>): void {
  for (const [name, value] of Object.entries(metrics))
    if (typeof value === 'number' && !Number.isFinite(value)) throw new MetricError(name, value);
}
