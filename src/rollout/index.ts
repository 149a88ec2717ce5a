export { type InProcessOptions, inProcess, type RolloutExecutor } from './executor.ts';
export { commonFailures, describeFailureKinds, type FailureKind, failureKinds } from './failure-kinds.ts';
export {
  fromGroupRecord,
  fromGroupRecords,
  type GroupRecord,
  parseGroupRecord,
  requireGroupRecord,
  toGroupRecord,
  toGroupRecords,
} from './group-record.ts';
export { type GroupStrategy, whyDropped } from './group-strategy.ts';
export {
  type OpponentPast,
  Opponents,
  type OpponentsOptions,
  opponents,
  type PoolPlayer,
} from './opponents.ts';
export {
  countRollouts,
  type Rollout,
  type RolloutCounts,
  type RolloutFailure,
  seatNotPlayed,
  toFailure,
  trajectoriesOf,
  withoutReward,
} from './rollout.ts';
export { type GroupSeat, RolloutGroup, type RolloutGroupOptions } from './rollout-group.ts';
export {
  checkEnvironment,
  checkEssentials,
  limitWords,
  type RolloutSettings,
  rolloutDefaults,
  rolloutSettingNames,
  type WholeRolloutSettings,
  wholeRolloutSettings,
} from './rollout-settings.ts';
export { type RunGroupOptions, runGroup } from './run-group.ts';
export {
  type GroupsResult,
  parseScenarios,
  type RunGroupsOptions,
  runGroups,
  runGroupsNames,
  runParsedGroups,
} from './run-groups.ts';
export { runRollout } from './run-rollout.ts';
export {
  checkSeats,
  isTrainedSeat,
  namesOfSeats,
  type SeatModel,
  type SeatModels,
  type TrainedSeat,
} from './seat-models.ts';
export { hasPlayed, type SeatRun } from './seats.ts';
export { settleGroup } from './settle-group.ts';
export { type WorkerThreadsOptions, workerThreads } from './threads/worker-threads.ts';
