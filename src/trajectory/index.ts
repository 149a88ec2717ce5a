export { TrajectoryClosedError, UnexpectedCallError } from './errors.ts';
export { History } from './history.ts';
export type { RecordedCall } from './recorded-call.ts';
export { currentTrajectory, runInTrajectory, runOutsideTrajectory } from './scope.ts';
export { deriveSeed, randomSource } from './seed.ts';
export { Trajectory, type TrajectoryOptions } from './trajectory.ts';
export { TrajectoryGroup } from './trajectory-group.ts';
