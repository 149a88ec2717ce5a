import { defineEnvironment, Trajectory } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Rollout } from '../../src/rollout/rollout.ts';
import { settleGroup } from '../../src/rollout/settle-group.ts';
import { recordCall } from '../environment/record-call.ts';

const base = { name: 'x', scenario: z.object({ goal: z.number() }), rollout: () => 'outcome' };
const rest = { scenario: { goal: 3 }, timeoutMs: 20, signal: undefined };
const never = <Result>() => new Promise<Result>(() => undefined);

/** A rollout that completed with this reward after two calls, the first of which has a step reward of 1. */
function completed(index: number, reward: number): Rollout<string> {
  const trajectory = new Trajectory();
  recordCall(trajectory);
  trajectory.rewardCall(1);
  recordCall(trajectory);
  trajectory.reward = reward;
  const status = 'completed';
  return {
    index,
    attempt: 0,
    seed: 0,
    trajectory,
    durationMs: 1,
    status,
    reward,
    outcome: `outcome ${index}`,
  };
}

function failed(index: number): Rollout<string> {
  const failure = { code: 'Error', message: 'the tool broke' };
  const ended = { status: 'failed', failure } as const;
  return { index, attempt: 0, seed: 0, trajectory: new Trajectory(), durationMs: 1, ...ended };
}

const credits = ({ trajectory }: Rollout) => trajectory.choices.map((choice) => choice.credited_reward);

test('a group without group rewards and credit stays as it is', async () => {
  const environment = defineEnvironment({ ...base, rewards: { one: () => 1 } });
  const rollouts = [completed(0, 2), failed(1)];
  const settled = await settleGroup({ environment, rollouts, ...rest });
  expect(settled).toEqual(rollouts);
  expect(settled.flatMap(credits)).toEqual([undefined, undefined]);
});

test('group rewards see the completed rollouts and are added by weight; each value becomes a metric', async () => {
  const seen: unknown[] = [];
  const environment = defineEnvironment({
    ...base,
    groupRewards: {
      rank: {
        weight: 2,
        reward: ({ scenario, members }) => {
          seen.push([scenario.goal, members.map(({ outcome, reward }) => [outcome, reward])]);
          return members.map((_, at) => at);
        },
      },
      share: async ({ members }) => members.map(({ reward }) => reward / 10),
      spread: { weight: 0, reward: ({ members }) => members.map(() => 100) },
    },
  });
  const settled = await settleGroup({
    environment,
    rollouts: [completed(0, 2), failed(1), completed(2, 5)],
    ...rest,
  });
  expect(seen).toEqual([
    [
      3,
      [
        ['outcome 0', 2],
        ['outcome 2', 5],
      ],
    ],
  ]);
  expect(settled).toMatchObject([
    { status: 'completed', reward: 2.2, trajectory: { metrics: { rank: 0, share: 0.2, spread: 100 } } },
    { status: 'failed', failure: { code: 'Error' } },
    { status: 'completed', reward: 7.5, trajectory: { metrics: { rank: 1, share: 0.5, spread: 100 } } },
  ]);
  expect(settled.map(({ trajectory }) => trajectory.reward)).toEqual([2.2, null, 7.5]);
});

test('credit counts group rewards at the last call and reaches the body of the trajectory', async () => {
  const environment = defineEnvironment({
    ...base,
    groupRewards: { rank: ({ members }) => members.map(() => 4) },
    credit: { discount: 0.5 },
  });
  const [first, second] = await settleGroup({
    environment,
    rollouts: [completed(0, 3), failed(1)],
    ...rest,
  });
  expect(first && credits(first)).toEqual([1 + 0.5 * 6, 6]);
  expect(JSON.stringify(first?.trajectory.toBody())).toContain('"credited_reward":6');
  expect(second?.status).toBe('failed');
});

test('credit without group rewards leaves rewards as they are', async () => {
  const environment = defineEnvironment({
    ...base,
    rewards: { one: () => 1 },
    credit: ({ calls, reward, outcome }) => calls.map(({ index }) => index + reward + outcome.length),
  });
  const settled = await settleGroup({ environment, rollouts: [completed(0, 3)], ...rest });
  expect(settled).toMatchObject([{ status: 'completed', reward: 3 }]);
  expect(settled.flatMap(credits)).toEqual([12, 13]);
});

const wrong: [string, () => number[] | Promise<number[]>, string, RegExp][] = [
  ['throws', () => Promise.reject(new Error('no judge')), 'group_reward_failed', /"rank" threw: no judge/],
  ['gives too few', () => [1], 'group_reward_failed', /"rank" returned 1 numbers for 2 members/],
  ['gives none', () => JSON.parse('{}'), 'group_reward_failed', /"rank" returned .* for 2 members/],
  ['gives NaN', () => [1, Number.NaN], 'group_reward_failed', /"rank" returned NaN for member 1/],
  ['gives too much', () => [Number.MAX_VALUE, Number.MAX_VALUE], 'group_reward_failed', /is Infinity/],
  ['never answers', () => never(), 'group_reward_timeout', /"rank" took longer than 20 ms/],
];

test.each(wrong)(
  'a group reward that %s fails the completed rollouts by its code',
  async (_, rank, code, message) => {
    const environment = defineEnvironment({ ...base, groupRewards: { rank: { weight: 2, reward: rank } } });
    const rollouts = [completed(0, 2), failed(1), completed(2, 5)];
    const settled = await settleGroup({ environment, rollouts, ...rest });
    const failure = { code, message: expect.stringMatching(message) };
    expect(settled).toMatchObject([
      { index: 0, status: 'failed', failure },
      { index: 1, status: 'failed', failure: { code: 'Error' } },
      { index: 2, status: 'failed', failure },
    ]);
    expect(settled.map(({ trajectory }) => trajectory.reward)).toEqual([null, null, null]);
  },
);

test('failing credit fails only its own rollout', async () => {
  const environment = defineEnvironment({
    ...base,
    rewards: { one: () => 1 },
    credit: ({ calls, reward }) => (reward === 2 ? [] : calls.map(() => 1)),
  });
  const settled = await settleGroup({ environment, rollouts: [completed(0, 2), completed(1, 5)], ...rest });
  expect(settled).toMatchObject([
    { status: 'failed', failure: { code: 'credit_failed' } },
    { status: 'completed', reward: 5 },
  ]);
  expect(settled[0]?.trajectory.reward).toBeNull();
});

test('group rewards of a stopped run are not awaited: the rollouts are cancelled', async () => {
  const stop = new AbortController();
  const environment = defineEnvironment({
    ...base,
    groupRewards: {
      rank: () => {
        stop.abort(new Error('Ctrl-C'));
        return never();
      },
    },
  });
  const rollouts = [completed(0, 2), failed(1)];
  const settled = await settleGroup({
    environment,
    rollouts,
    ...rest,
    timeoutMs: 60_000,
    signal: stop.signal,
  });
  expect(settled).toMatchObject([
    { status: 'cancelled', failure: { code: 'cancelled', message: 'The run was stopped: Ctrl-C' } },
    { status: 'failed' },
  ]);
});

test('a group without a completed rollout calls no group reward', async () => {
  const environment = defineEnvironment({
    ...base,
    groupRewards: {
      rank: () => {
        throw new Error('asked');
      },
    },
  });
  const rollouts = [failed(0)];
  expect(await settleGroup({ environment, rollouts, ...rest })).toEqual(rollouts);
});

test('synchronous credit is assigned also when the run is stopped', async () => {
  const environment = defineEnvironment({ ...base, rewards: { one: () => 1 }, credit: { discount: 1 } });
  const rollouts = [completed(0, 3)];
  const settled = await settleGroup({ environment, rollouts, ...rest, signal: AbortSignal.abort() });
  expect(settled).toMatchObject([{ status: 'completed', reward: 3 }]);
  expect(settled.flatMap(credits)).toEqual([3, 2]);
});
