export {
  type CompareAllOptions,
  type ComparedEvaluation,
  compare,
} from './compare.ts';
export {
  type ComparedScores,
  type CompareOptions,
  type Comparison,
  comparePair,
  type PairedScore,
  type SignFlipTest,
} from './compare-pair.ts';
export type { ComparisonRow, ComparisonTable, RowDifference, ScenarioRow } from './comparison-table.ts';
export { checkPrices, costOf, priceNames, type TokenPrices, type TokenUsage } from './cost.ts';
export { describeComparison } from './describe-comparison.ts';
export { type Estimate, endsOf, type Interval, type PassAt } from './estimate.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from './evaluate.ts';
export { type EvaluationSource, gate } from './gate.ts';
export { readEvaluation } from './read-evaluation.ts';
export { type ScenarioScore, type SuccessOf, scenarioKeys, successOf } from './score-scenario.ts';
export {
  type EvaluationRow,
  evaluationCsv,
  evaluationJsonLines,
  evaluationRows,
  evaluationTable,
} from './table.ts';
