export { limitWords, missingEnvironment, missingEssential } from './check-essentials.ts';
export { commonFailures, type FailureKind, failureKinds } from './common-failures.ts';
export { RolloutOptionError } from './errors.ts';
export type { RolloutExecutor } from './executor.ts';
export { toFailure } from './failure.ts';
export {
  fromGroupRecord,
  type GroupRecord,
  GroupRecordError,
  parseGroupRecord,
  requireGroupRecord,
  toGroupRecord,
} from './group-record.ts';
export { defaultGroupStrategy, type GroupStrategy, neededRollouts } from './group-strategy.ts';
export { defaultConcurrency, type InProcessOptions, inProcess } from './in-process.ts';
export { parseScenarios, ScenarioError } from './parse-scenarios.ts';
export { countRollouts, type Rollout, type RolloutCounts, type RolloutFailure } from './rollout.ts';
export { RolloutGroup, type RolloutGroupOptions } from './rollout-group.ts';
export { type RunGroupOptions, runGroup } from './run-group.ts';
export { type GroupsResult, type RunGroupsOptions, runGroups, runGroupsNames } from './run-groups.ts';
export type { RunRolloutOptions } from './run-rollout.ts';
export { settleGroup } from './settle-group.ts';
export { type WorkerThreadsOptions, workerThreads } from './threads/worker-threads.ts';
