export { type PruneCheckpointsOptions, pruneCheckpoints } from './checkpoints.ts';
export {
  NoCompletedRolloutsError,
  RunOptionError,
  TrainingJobError,
  TrainingJobTimeoutError,
} from './errors.ts';
export {
  type FollowJobOptions,
  followJob,
  type JobOutcome,
  type JobProgress,
  meanMetrics,
} from './follow-job.ts';
export type { ModelSource } from './model-source.ts';
export { type JobRecord, RunDirectory } from './run-directory.ts';
export type { EvaluationScore, RunEvent, RunListener, StepReport } from './run-event.ts';
export { ScenarioSampler } from './scenario-sampler.ts';
export {
  type LogTrajectoriesOptions,
  logTrajectories,
  type SubmitTrainingOptions,
  submitTraining,
} from './submit-training.ts';
export { type SuperviseOptions, type SuperviseResult, supervise } from './supervise.ts';
export { train } from './train.ts';
export type { TrainOptions, TrainResult, TrainSettings, ValidationOptions } from './train-options.ts';
