import { describe, expect, it } from 'vitest';
import { doors, lookBehind, looks, search, searchScenarios } from '../../../recipes/search/environment.ts';
import { ModelHandle, runGroups } from '../../../src/index.ts';
import { type FakePolicy, startFakeService } from '../../model/fake-service.ts';

/** Opens the door that the plan says, given what the doors before it said. */
const opens =
  (plan: (answers: string[]) => number): FakePolicy =>
  ({ messages }) => {
    const answers = messages.flatMap(({ role, content }) => (role === 'tool' ? [String(content)] : []));
    return { toolCalls: [{ name: 'open', arguments: JSON.stringify({ door: String(plan(answers)) }) }] };
  };

/** Halves what is left. */
function halve(answers: readonly string[]): number {
  let [low, high] = [1, doors];
  for (const answer of answers) {
    const middle = Math.floor((low + high) / 2);
    if (answer === 'higher') low = middle + 1;
    else high = middle - 1;
  }
  return Math.floor((low + high) / 2);
}

async function searched(plan: (answers: string[]) => number) {
  await using service = await startFakeService({ policy: opens(plan) });
  const { groups } = await runGroups({
    environment: search,
    scenarios: searchScenarios,
    rolloutsPerGroup: 1,
    model: new ModelHandle({ client: service.client, name: 'local/search/policy:step0' }),
  });
  return groups.flatMap(({ rollouts }) => rollouts);
}

describe('the search', () => {
  it('is won in every place by halving what is left, in no more looks than there are', async () => {
    const rollouts = await searched(halve);
    expect(rollouts.map(({ status }) => status)).toEqual(searchScenarios.map(() => 'completed'));
    expect(rollouts.map(({ trajectory }) => trajectory.reward)).toEqual(searchScenarios.map(() => 1));
    expect(Math.max(...rollouts.map(({ trajectory }) => Number(trajectory.metrics.looks)))).toBe(looks);
    expect(new Set(rollouts.map(({ trajectory }) => trajectory.stopReason))).toEqual(new Set(['found']));
  });

  it('is lost in most places by opening one door after the other, and ends at the last look', async () => {
    const rollouts = await searched((answers) => answers.length + 1);
    expect(rollouts.map(({ trajectory }) => trajectory.reward)).toEqual([1, 1, 1, 0, 0, 0, 0]);
    expect(rollouts[6]?.trajectory.stopReason).toBe('turn_limit');
  });

  it('says on which side of a door the prize is', () => {
    expect([lookBehind(2, 5), lookBehind(5, 5), lookBehind(6, 5)]).toEqual(['higher', 'here', 'lower']);
  });
});
