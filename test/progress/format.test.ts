import { expect, test } from 'vitest';
import { coverageText } from '../../src/progress/format.ts';
import { plainLines } from '../../src/progress/plain.ts';
import { newRun } from '../../src/progress/run-progress.ts';
import { evaluated } from './events.ts';

const counts = { dispatched: 256, completed: 110, failed: 140, cancelled: 6 };

test('the coverage of a score names the scenarios that it includes', () => {
  const none = { dispatched: 1, completed: 1, failed: 0, cancelled: 0 };
  expect(coverageText({ scenarios: 1, scored: 1, counts: none })).toBe('1 scenario');
  expect(coverageText({ scenarios: 256, scored: 110, counts })).toBe(
    '110 of 256 scenarios (146 rollouts failed)',
  );
  const few = { dispatched: 8, completed: 7, failed: 1, cancelled: 0 };
  expect(coverageText({ scenarios: 4, scored: 4, counts: few })).toBe('4 scenarios (1 rollout failed)');
  const event = { ...evaluated('before', 0.7), scenarios: 256, scored: 110, counts };
  expect(plainLines(newRun(0), newRun(0), event)).toEqual([
    'before: reward 0.700 · success 35% on 110 of 256 scenarios (146 rollouts failed) (local/desk/clerk:step1)',
  ]);
});
