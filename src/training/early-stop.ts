import type { RunValidation, StepReport } from '../progress/index.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { canRank } from './diagnosis/thresholds.ts';
import { invalidRunOption, runOptionError } from './errors.ts';

/** The progress of a run, passed to `stopWhen` after each step. */
export interface StopProgress {
  /** One for each finished step, in order; at least one. */
  reports: readonly StepReport[];
  /** The validations so far, in order. */
  evaluations: readonly RunValidation[];
}

/** Returns why the run should end, as short text, or false to continue. */
export type StopWhen = (progress: StopProgress) => string | false;

export interface EarlyStopOptions {
  /**
   * The metric to watch: mean reward or share of successes, of the validations (`validation`, `validation_success`) or
   * of the steps' rollouts (`reward`, `success`). Larger is better. Validations in which more than half of the rollouts
   * failed are ignored.
   */
  metric: 'validation' | 'validation_success' | 'reward' | 'success';
  /**
   * Ends the run after this many validations, or steps, in a row without a new best.
   *
   * @default no limit
   * @example 5
   */
  patience?: number;
  /**
   * A value is a new best only if it exceeds the old best by more than this.
   *
   * @default 0
   * @example 0.01
   */
  minDelta?: number;
  /**
   * Ends the run once the metric is at least this.
   *
   * @default no goal
   * @example 0.95
   */
  goal?: number;
}

const earlyStopNames = {
  metric: ['validation', 'validation_success', 'reward', 'success'],
  patience: true,
  minDelta: 'numeric',
  goal: true,
} satisfies OptionNames<EarlyStopOptions>;

/**
 * For `stopWhen`: ends a run that has reached its goal or no longer improves. It considers the whole run each time, so
 * a resumed run ends at the same step as an uninterrupted one.
 * @throws OptionError if neither `patience` nor `goal` is set, or an option is invalid.
 */
export function earlyStop(options: EarlyStopOptions): StopWhen {
  checkOptionNames('earlyStop()', options, earlyStopNames);
  const { metric, patience, minDelta = 0, goal } = options;
  if (patience === undefined && goal === undefined)
    throw runOptionError(
      'patience',
      'earlyStop() has neither `patience` nor `goal`: it would never stop. Set one of them.',
    );
  if (patience !== undefined) wholeNumberOption('invalid_run_option', 'patience', patience, 1);
  if (!(minDelta >= 0)) throw invalidRunOption('minDelta', minDelta, 'Pass a number of at least 0.');
  if (goal !== undefined && !Number.isFinite(goal))
    throw invalidRunOption('goal', goal, 'Pass a finite number.');
  return (progress) => {
    const values = valuesOf(metric, progress);
    const last = values.at(-1);
    if (last === undefined) return false;
    if (goal !== undefined && last >= goal) return `${metric} is ${last}; the goal was ${goal}`;
    if (patience === undefined) return false;
    let best = Number.NEGATIVE_INFINITY;
    let since = 0;
    for (const value of values) {
      since = value > best + minDelta ? 0 : since + 1;
      if (since === 0) best = value;
    }
    return since >= patience ? `${metric} has not risen above ${best} ${since} times in a row` : false;
  };
}

function valuesOf(metric: EarlyStopOptions['metric'], { reports, evaluations }: StopProgress): number[] {
  switch (metric) {
    case 'validation':
      return evaluations.filter(canRank).map(({ reward }) => reward);
    case 'validation_success':
      return evaluations.filter(canRank).flatMap(({ success }) => success ?? []);
    case 'reward':
      return reports.map(({ reward }) => reward);
    case 'success':
      return reports.flatMap(({ success }) => success ?? []);
  }
}
