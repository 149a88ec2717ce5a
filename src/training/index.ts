export type { RunBudget, TokenPrices, TokenUsage } from './budget.ts';
export { type KeepCheckpoints, type PruneCheckpointsOptions, pruneCheckpoints } from './checkpoints.ts';
export {
  alarmThresholds,
  diagnose,
  type EvaluationPoint,
  newAlarms,
  type RunFigures,
  repeatedShare,
} from './diagnosis/index.ts';
export { type EarlyStopOptions, earlyStop, type StopProgress, type StopWhen } from './early-stop.ts';
export {
  NoCompletedRolloutsError,
  ResumeError,
  RunInUseError,
  RunOptionError,
  ScenarioTimeoutError,
  TrainingJobError,
  TrainingJobTimeoutError,
  TrainingJobUnknownError,
} from './errors.ts';
export {
  type FollowJobOptions,
  followJob,
  type JobOutcome,
  type JobProgress,
  meanMetrics,
} from './follow-job.ts';
export type { LostJobOptions } from './lost-job.ts';
export type { ModelSource } from './model-source.ts';
export {
  type ReplayDifference,
  type ReplayedStep,
  ReplayMismatchError,
  type ReplayOptions,
  type ReplayStepOptions,
  type Rescored,
  type RescoredGroups,
  type RescoredRollout,
  type RescoreOptions,
  type RunEvaluation,
  type RunReader,
  RunRecordError,
  readRun,
  replayStep,
  rescore,
} from './replay/index.ts';
export { RunDirectory } from './run-directory.ts';
export type { RunConfig, RunVersions } from './run-origin.ts';
export type { JobRecord, RunPart, RunState } from './run-state.ts';
export { constant, cosine, linear, type RunProgress, type Schedule, warmup } from './schedules.ts';
export { type SftOptions, type SftResult, sft } from './sft.ts';
export {
  type LogTrajectoriesOptions,
  logTrajectories,
  type SubmitTrainingOptions,
  submitTraining,
} from './submit-training.ts';
export { train } from './train.ts';
export type {
  TrainOptions,
  TrainResult,
  TrainSettings,
  ValidationOptions,
  WarmStart,
} from './train-options.ts';
