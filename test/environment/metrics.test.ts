import { expect, test } from 'vitest';
import { checkMetrics } from '../../src/environment/metrics.ts';

test.each([
  [Number.NaN, /"share" is NaN/],
  ['1', /"share" is "1"/],
  [null, /"share" is null/],
  [1n, /"share" is the bigint 1/],
])('the metric %s, which the wire cannot carry, is refused', (share, message) => {
  expect(() => checkMetrics({ fine: 1, also: false, share })).toThrow(message);
});
