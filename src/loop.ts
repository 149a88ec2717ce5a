import './platform/check-node.ts';

/** The pieces of a training loop, to write your own. `train` is built from them. */
export { toScenarioSource } from './environment/index.ts';
export { newestStep } from './model/index.ts';
export { countRollouts, RolloutGroup, type RolloutGroupOptions } from './rollout/index.ts';
export { metricName } from './telemetry/index.ts';
export {
  alarmThresholds,
  diagnose,
  type EvaluationPoint,
  type FollowJobOptions,
  followJob,
  type GroupsToSend,
  type JobOutcome,
  type JobProgress,
  type JobRecord,
  type LogTrajectoriesOptions,
  logTrajectories,
  newAlarms,
  type PruneCheckpointsOptions,
  pruneCheckpoints,
  type RunConfig,
  RunDirectory,
  type RunFigures,
  type RunState,
  type RunVersions,
  type StoreGroupOptions,
  type SubmitTrainingOptions,
  storeGroup,
  submitTraining,
} from './training/index.ts';
export { repeatedShare, runInTrajectory } from './trajectory/index.ts';
