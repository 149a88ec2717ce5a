import { expect, test } from 'vitest';
import { reachedLimit } from '../../src/training/budget.ts';

const usage = { promptTokens: 0, sampledTokens: 0 };

test('the text of a reached limit shows it, in runs of seconds and of days', () => {
  const used = (minutes: number, seconds: number) =>
    reachedLimit({ minutes }, { usage, cost: null, seconds });
  expect(used(0.02, 1.21)).toBe('0.0202 of 0.02 minutes are used');
  expect(used(3000, 180_060)).toBe('3000 of 3000 minutes are used');
  expect(used(1, 59.9)).toBeNull();
});
