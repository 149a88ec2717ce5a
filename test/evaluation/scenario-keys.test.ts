import { expect, test } from 'vitest';
import { scenarioKeys } from '../../src/evaluation/score-scenario.ts';

test('keys are unique even if an id looks like a numbered key', () => {
  expect(scenarioKeys([{ id: 'a#2' }, { id: 'a' }, { id: 'a' }, { id: 'a' }])).toEqual([
    'a#2',
    'a',
    'a#3',
    'a#4',
  ]);
});
