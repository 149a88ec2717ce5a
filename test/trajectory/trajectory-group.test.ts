import { expect, test } from 'vitest';
import { Trajectory, TrajectoryGroup } from '../../src/trajectory/index.ts';

const group = (...rewards: number[]) =>
  new TrajectoryGroup({
    trajectories: rewards.map((reward) => Object.assign(new Trajectory(), { reward })),
  });

test.each([
  [[0.1 + 0.2, 0.3], false],
  [[1e-10, 2e-10], true],
  [[1, 0], true],
  [[1, 1, 1], false],
  [[1], false],
  [[], false],
])('rewards %j have a signal: %s, as training has it', (rewards, expected) => {
  expect(group(...rewards).hasSignal).toBe(expected);
});
