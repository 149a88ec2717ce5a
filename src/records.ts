import './platform/check-node.ts';

/** Reads and writes what runs and evaluations leave on disk. */
export {
  type ComparedScores,
  type EvaluationRow,
  evaluationCsv,
  evaluationJsonLines,
  evaluationRows,
  readEvaluation,
} from './evaluation/index.ts';
export {
  type RecordedScenario,
  recordedScenario,
} from './formats/conversations/recorded-scenario.ts';
export { fromGroupRecord, type GroupRecord, parseGroupRecord, toGroupRecord } from './rollout/index.ts';
export {
  type Rescored,
  type RescoredGroups,
  type RescoredRollout,
  type RescoreOptions,
  type RunEvaluation,
  type RunReader,
  readRun,
  rescore,
} from './training/index.ts';
export { fromTrajectoryRecord, type TrajectoryRecord, toTrajectoryRecord } from './trajectory/index.ts';
