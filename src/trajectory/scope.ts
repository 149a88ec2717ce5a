import { AsyncLocalStorage } from 'node:async_hooks';
import type { Trajectory } from './trajectory.ts';

const scope = new AsyncLocalStorage<Trajectory | undefined>();

/** Runs `body`; every model call it makes, also through other functions and timers, is of this trajectory. */
export function runInTrajectory<Result>(trajectory: Trajectory, body: () => Result): Result {
  return scope.run(trajectory, body);
}

/**
 * Runs `body` outside of any trajectory: calls of the policy that it makes are not recorded, and those of other models
 * are not told as a mistake. For what belongs to the environment, such as a user simulator with a model of its own:
 *
 *     const { text } = await runOutsideTrajectory(() => generateText({ model: simulator, prompt }));
 */
export function runOutsideTrajectory<Result>(body: () => Result): Result {
  return scope.run(undefined, body);
}

/** The trajectory that a model call made here and now belongs to. */
export function currentTrajectory(): Trajectory | undefined {
  return scope.getStore();
}
