export type { CallEnd } from './call-ends.ts';
export {
  NotTrainableError,
  TrajectoryClosedError,
  TrajectorySealedError,
  UnexpectedCallError,
  type UnexpectedCallReason,
} from './errors.ts';
export { History } from './history.ts';
export {
  LimitReachedError,
  type LimitReason,
  type RolloutLimits,
  type RolloutUsage,
  type UsedUpLimit,
} from './limits.ts';
export type { Observations, ToolUses } from './observations.ts';
export { ownModelAt, runAsOwnCall, watchOtherModels } from './other-models.ts';
export type { PromptMessages, RecordedCall, TrajectoryCall } from './recorded-call.ts';
export { sampledMessage } from './sampled-message.ts';
export { currentTrajectory, runInTrajectory, runOutsideTrajectory } from './scope.ts';
export { deriveSeed, randomSource } from './seed.ts';
export type { SpokenCall } from './spoken-call.ts';
export { Trajectory } from './trajectory.ts';
export { TrajectoryGroup } from './trajectory-group.ts';
export type { TrajectoryOptions, UnrewardedTrajectory } from './trajectory-options.ts';
export { fromTrajectoryRecord, type TrajectoryRecord, toTrajectoryRecord } from './trajectory-record.ts';
