export { type BeforeAfter, type EvaluatedModel, type NextCommand, printBeforeAfter } from './comparison.ts';
export { counted, duration } from './format.ts';
export { alarmTitle } from './live-parts.ts';
export { openProgress, type ProgressOption, writeJsonLine } from './open-progress.ts';
export type {
  Alarm,
  AlarmKind,
  GroupComparison,
  NoSignalCause,
  OpponentResult,
  StepReport,
} from './report.ts';
export type {
  EvaluationScore,
  RunEndReason,
  RunEvent,
  RunListener,
  RunValidation,
  VersionChange,
} from './run-event.ts';
