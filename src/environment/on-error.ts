import { MartingaleError } from '../contract/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { codeOfThrown, describeThrown } from './describe-thrown.ts';
import { scoredErrorMetric } from './own-metrics.ts';
import { describeWithPlace } from './thrown-place.ts';

/** `onError` threw: the rollout is failed. `cause` is what it threw; `errors` are that, and what it was asked about. */
export class OnErrorError extends MartingaleError {
  readonly errors: readonly [thrown: unknown, asked: unknown];

  constructor(thrown: unknown, asked: unknown) {
    super(
      'on_error_failed',
      `\`onError\` threw: ${describeThrown(thrown)}. It was asked about: ${describeThrown(asked)}`,
      { cause: thrown },
    );
    this.errors = [thrown, asked];
  }
}

/**
 * Asks the environment's `onError` for an outcome; undefined where it has none, or throws the error that it was asked
 * about. An outcome is counted in the trajectory's metric `scored_errors` and told in its logs.
 * @throws OnErrorError
 */
export async function askOnError<Outcome>(
  { metrics, logs }: Trajectory,
  error: unknown,
  onError: () => Outcome | undefined | PromiseLike<Outcome | undefined>,
): Promise<{ outcome: Outcome } | undefined> {
  let outcome: Outcome | undefined;
  try {
    outcome = await onError();
  } catch (thrown) {
    if (thrown === error) return undefined;
    throw new OnErrorError(thrown, error);
  }
  if (outcome === undefined) return undefined;
  metrics[scoredErrorMetric] = 1;
  logs.push(`\`onError\` made an outcome of ${codeOfThrown(error)}: ${describeWithPlace(error)}`);
  return { outcome };
}
