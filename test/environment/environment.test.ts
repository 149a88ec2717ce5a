import { defineEnvironment, RewardError, Trajectory } from 'martingale';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { score } from '../../src/environment/index.ts';

const scenario = z.object({ goal: z.number().default(3) });
const context = () => ({
  scenario: { goal: 3 },
  outcome: 3,
  trajectory: new Trajectory(),
  signal: new AbortController().signal,
});

test('the types of scenario and outcome are inferred', () => {
  defineEnvironment({
    name: 'typed',
    scenario,
    rollout: async (rollout) => {
      expectTypeOf(rollout.scenario).toEqualTypeOf<{ goal: number }>();
      return { steps: ['a'] };
    },
    rewards: {
      right: (reward) => {
        expectTypeOf(reward.outcome).toEqualTypeOf<{ steps: string[] }>();
        return reward.outcome.steps.length;
      },
      length: { weight: 0, reward: async ({ outcome }) => outcome.steps.length },
    },
  });
});

test('the reward is the weighted sum; each value becomes a metric; weight 0 is a metric alone', async () => {
  const environment = defineEnvironment({
    name: 'sum',
    scenario,
    rollout: () => 3,
    rewards: {
      right: ({ scenario: { goal }, outcome }) => Number(goal === outcome),
      short: { weight: 0.5, reward: async () => 4 },
      watched: { weight: 0, reward: () => 100 },
    },
  });
  const given = context();
  expect(await score(environment.rewards, given)).toBe(3);
  expect(given.trajectory.metrics).toEqual({ right: 1, short: 4, watched: 100 });
});

test.each([
  [
    'throws',
    () => {
      throw new Error('no network');
    },
    /"right" threw: no network/,
  ],
  ['gives NaN', () => Number.NaN, /"right" gave NaN/],
  ['gives infinity', () => Number.POSITIVE_INFINITY, /gave Infinity/],
])('a reward that %s is an error that names it', async (_, right, message) => {
  const environment = defineEnvironment({ name: 'broken', scenario, rollout: () => 3, rewards: { right } });
  const failing = score(environment.rewards, context());
  await expect(failing).rejects.toThrow(RewardError);
  await expect(failing).rejects.toThrow(message);
});

test('an environment without a reward that weighs is refused', () => {
  const define = (weight: number) =>
    defineEnvironment({ name: 'x', scenario, rollout: () => 0, rewards: { a: { weight, reward: () => 1 } } });
  expect(() => define(0)).toThrow(/nothing to learn from/);
  expect(() => define(Number.NaN)).toThrow(/"a" is NaN/);
});
