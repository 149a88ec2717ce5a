import { expect, test } from 'vitest';
import { checkTrajectory } from '../../src/environment/metrics.ts';
import { Trajectory } from '../../src/trajectory/index.ts';

test.each([
  [Number.NaN, /"share" is NaN/],
  ['1', /"share" is "1"/],
  [null, /"share" is null/],
  [1n, /"share" is the bigint 1/],
])('the metric %s, which the wire cannot carry, is refused', (share, message) => {
  const trajectory = new Trajectory();
  Object.assign(trajectory.metrics, { fine: 1, also: false, share });
  expect(() => checkTrajectory(trajectory)).toThrow(message);
});
