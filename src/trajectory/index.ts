export { TrajectoryClosedError, UnexpectedCallError } from './errors.ts';
export { History } from './history.ts';
export { LimitReachedError, type LimitReason, type RolloutLimits, type RolloutUsage } from './limits.ts';
export type { RecordedCall, TrajectoryCall } from './recorded-call.ts';
export { currentTrajectory, runInTrajectory, runOutsideTrajectory } from './scope.ts';
export { deriveSeed, randomSource } from './seed.ts';
export { Trajectory, type TrajectoryOptions } from './trajectory.ts';
export { TrajectoryGroup } from './trajectory-group.ts';
