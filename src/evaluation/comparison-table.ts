import type { Estimate } from './estimate.ts';

/**
 * Evaluations of one environment beside each other. It is plain JSON, and this form is stable: later versions may add
 * fields. A null says that something is not known.
 */
export interface ComparisonTable {
  /** Null where no evaluation names it. */
  environment: string | null;
  measure: 'reward' | 'success';
  /** In the order of the evaluations. The first is the baseline. */
  rows: ComparisonRow[];
  /** Every scenario that has a score in some row. */
  scenarios: ScenarioRow[];
  /** In words: why scores of rows may differ although the models do not. */
  warnings: string[];
}

export interface ComparisonRow {
  name: string;
  /** Name of the model that was evaluated. */
  policy: string;
  /** Mean of the measure over all scored scenarios of the row, with its 95 % interval. */
  score: Estimate | null;
  /** Scenarios of the row, scored or not. */
  scenarios: number;
  /** Against the first row, over the scenarios that both have a score for; null for the first row. */
  difference: RowDifference | null;
  /**
   * Of 1,000 completed rollouts, one for each scenario: tokens of all rollouts, those that did not complete too, by the
   * number of those that did. Calls of judges are not in it.
   */
  tokensPer1000: { promptTokens: number; sampledTokens: number } | null;
  /** In the unit of the prices. */
  costPer1000: number | null;
  /** Milliseconds of completed rollouts, from the start until the agent returned, as they ran beside each other. */
  latency: { medianMs: number; p90Ms: number; rollouts: number } | null;
}

export interface RowDifference {
  /** Mean of this row minus the first, with its 95 % interval; null without a pair. */
  estimate: Estimate | null;
  /** Two-sided, of the paired sign-flip test; null without a pair. */
  pValue: number | null;
  /** The p value, corrected for the number of rows that are tested against the first (Holm, 1979). */
  adjustedPValue: number | null;
  /** Keys of scenarios that are better and worse than in the first row. */
  better: string[];
  worse: string[];
  /** Number of scenarios with equal scores. */
  same: number;
  /** Keys of scenarios that only this row, or only the first, has a score for. They are in no difference. */
  onlyHere: string[];
  onlyInFirst: string[];
}

export interface ScenarioRow {
  key: string;
  /** Its title in lists, with its key if several have the same title; its key alone where the scenario is not known. */
  title: string;
  /** Its score in each row; null where it has none. */
  scores: (number | null)[];
}
