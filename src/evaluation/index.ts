export type { SignFlipTest } from './compare.ts';
export {
  type CompareOptions,
  type Comparison,
  compare,
  describeComparison,
  type PairedScore,
} from './compare.ts';
export type { PassAt } from './estimate.ts';
export { average, type Estimate, estimate, type Interval } from './estimate.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from './evaluate.ts';
export { type ScenarioScore, type SuccessOf, successOf } from './score-scenario.ts';
export { storageError, storing } from './storage.ts';
export {
  type EvaluationRow,
  evaluationCsv,
  evaluationJsonLines,
  evaluationRows,
  evaluationTable,
} from './table.ts';
