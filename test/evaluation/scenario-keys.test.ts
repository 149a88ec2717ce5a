import { expect, test } from 'vitest';
import { scenarioKeys } from '../../src/evaluation/score-scenario.ts';

test('keys differ also where a scenario has the id that a repeated one would get', () => {
  expect(scenarioKeys([{ id: 'a#2' }, { id: 'a' }, { id: 'a' }, { id: 'a' }])).toEqual([
    'a#2',
    'a',
    'a#3',
    'a#4',
  ]);
});
