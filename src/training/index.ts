export type { TokenPrices, TokenUsage } from '../evaluation/index.ts';
export { type RunBudget, reachedLimit, sumUsage, usageOf } from './budget.ts';
export { checkBudget, trainNames } from './check-options.ts';
export { type PruneCheckpointsOptions, pruneCheckpoints } from './checkpoints.ts';
export { diagnose, newAlarms } from './diagnosis/diagnose.ts';
export type { EvaluationPoint, RunFigures } from './diagnosis/run-so-far.ts';
export { alarmThresholds } from './diagnosis/thresholds.ts';
export { type EarlyStopOptions, earlyStop, type StopProgress, type StopWhen } from './early-stop.ts';
export { TrainingError, type TrainingErrorCode } from './errors.ts';
export {
  type FollowJobOptions,
  followJob,
  type JobOutcome,
  type JobProgress,
} from './follow-job.ts';
export type { LostJobOptions } from './lost-job.ts';
export type { ModelSource } from './model-source.ts';
export {
  groupFiles,
  type RunEvaluation,
  type RunReader,
  readRun,
} from './replay/read-run.ts';
export type { ReplayOptions } from './replay/replay-group.ts';
export {
  type ReplayDifference,
  type ReplayedStep,
  type ReplayStepOptions,
  replayStep,
} from './replay/replay-step.ts';
export {
  type Rescored,
  type RescoredGroups,
  type RescoredRollout,
  type RescoreOptions,
  rescore,
} from './replay/rescore.ts';
export { RunDirectory, runFiles, trajectoriesFile } from './run-directory.ts';
export { defaultRunDirectory, isRunActive, stepName } from './run-files.ts';
export type { RunConfig, RunVersions } from './run-origin.ts';
export type { GroupTokens, JobRecord, RunState } from './run-state.ts';
export { constant, cosine, linear, type RunProgress, type Schedule, warmup } from './schedules.ts';
export { type SftOptions, type SftResult, sft } from './sft.ts';
export { isAgainstSuccess } from './step-report.ts';
export {
  type GroupsToSend,
  type LogTrajectoriesOptions,
  logTrajectories,
  type StoreGroupOptions,
  type SubmitTrainingOptions,
  storeGroup,
  submitTraining,
} from './submit-training.ts';
export type { Teacher } from './teacher.ts';
export { train } from './train.ts';
export type {
  KeepCheckpoints,
  TrainOptions,
  TrainResult,
  TrainSettings,
  ValidationOptions,
  WarmStart,
} from './train-options.ts';
export { openGroupTokens, type ReadGroupTokens } from './trained-tokens.ts';
