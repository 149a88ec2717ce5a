export {
  type ComparedScores,
  type CompareOptions,
  type Comparison,
  compare,
  describeComparison,
  type PairedScore,
  type SignFlipTest,
} from './compare.ts';
export { average, type Estimate, type Interval, type PassAt } from './estimate.ts';
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
