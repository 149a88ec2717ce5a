import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evaluate } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import environment, { scenarios } from './environment.ts';

const rewardsFor = async (word: string) => {
  const model = scriptedModel(() => JSON.stringify({ word }));
  const { perScenario, groups } = await evaluate({ environment, scenarios, model, progress: false });
  const failed = groups.flatMap(({ rollouts }) => rollouts).find(({ status }) => status === 'failed');
  assert.equal(failed?.status === 'failed' ? failed.failure.message : undefined, undefined);
  return perScenario.map(({ reward }) => reward);
};

test('only the word for the light earns a reward', async () => {
  assert.deepEqual(await rewardsFor('stop'), [1, 0, 0]);
  assert.deepEqual(await rewardsFor('go'), [0, 0, 1]);
});
