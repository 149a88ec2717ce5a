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

test('equal rewards have a signal where calls are credited apart', () => {
  const credited = (reward: number) => {
    const trajectory = Object.assign(new Trajectory(), { reward: 1 });
    const { index } = trajectory.startCall();
    trajectory.record({
      index,
      messages: [{ role: 'user', content: 'go' }],
      tools: undefined,
      choice: {
        index: 0,
        message: { role: 'assistant', content: 'gone' },
        finish_reason: 'stop',
        token_ids: [7],
      },
      promptTokenIds: [1, 2],
      model: 'local/p/m:step1',
    });
    trajectory.creditCalls(new Map([[index, reward]]));
    return trajectory;
  };
  expect(new TrajectoryGroup({ trajectories: [credited(0), credited(1)] }).hasSignal).toBe(true);
  expect(new TrajectoryGroup({ trajectories: [credited(1), credited(1)] }).hasSignal).toBe(false);
});
