export { diagnose, newAlarms, RunDiagnosis } from './diagnose.ts';
export { countRepeats, repeatedShare } from './repeated-share.ts';
export type { EvaluationPoint, RunFigures } from './run-so-far.ts';
export { alarmThresholds } from './thresholds.ts';
