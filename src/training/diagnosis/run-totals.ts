import type { GroupComparison, StepReport } from '../../progress/index.ts';

/** Sums over the first steps of a run: those of a stretch are the difference of two. */
export interface RunTotals {
  reward: number;
  rewardDeviation: number;
  success: number;
  /** Steps that have a success. */
  judged: number;
  completed: number;
  /** Smallest and largest reward of a rollout, as far as reports tell it. */
  rewardRange: GroupComparison['rewardRange'];
  /** Whether the rewards of any group have differed. */
  hasEverDiffered: boolean;
}

const none: RunTotals = {
  reward: 0,
  rewardDeviation: 0,
  success: 0,
  judged: 0,
  completed: 0,
  rewardRange: { min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY },
  hasEverDiffered: false,
};

/** The totals after no step, after one, and so on: made once, as a run is diagnosed after each of its steps. */
export function runTotals(reports: readonly StepReport[]): RunTotals[] {
  const totals = [none];
  let last = none;
  for (const { reward, rewardDeviation, success, completed, groupsWithSignal, comparison } of reports) {
    const { min, max } = comparison?.rewardRange ?? none.rewardRange;
    last = {
      reward: last.reward + reward,
      rewardDeviation: last.rewardDeviation + rewardDeviation,
      success: last.success + (success ?? 0),
      judged: last.judged + (success === null ? 0 : 1),
      completed: last.completed + completed,
      rewardRange: { min: Math.min(last.rewardRange.min, min), max: Math.max(last.rewardRange.max, max) },
      hasEverDiffered: last.hasEverDiffered || groupsWithSignal > 0,
    };
    totals.push(last);
  }
  return totals;
}
