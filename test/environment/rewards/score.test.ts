import { EnvironmentError, type Rewards, Trajectory } from 'martingale';
import { expect, test } from 'vitest';
import { score, weigh } from '../../../src/environment/index.ts';
import { recordCall } from '../record-call.ts';

type Given = Rewards<{ goal: number }, number>;

const context = () => ({
  scenario: { goal: 3 },
  outcome: 3,
  state: undefined,
  trajectory: new Trajectory(),
  signal: new AbortController().signal,
});

test('the reward is the weighted sum; each value becomes a metric; weight 0 is a metric alone', async () => {
  const rewards: Given = {
    right: ({ scenario: { goal }, outcome }) => Number(goal === outcome),
    short: { weight: 0.5, reward: async () => 4 },
    watched: { weight: 0, reward: () => 100 },
  };
  const given = context();
  expect(await score(weigh(rewards), given)).toBe(3);
  expect(given.trajectory.metrics).toEqual({ right: 1, short: 4, watched: 100 });
});

test('rewards run one after the other, in the order of definition', async () => {
  const order: string[] = [];
  const slow = (name: string, turns: number) => async () => {
    order.push(`${name} begins`);
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    order.push(`${name} ends`);
    return 1;
  };
  await score(weigh({ a: slow('a', 5), b: slow('b', 0) }), context());
  expect(order).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
});

test('step rewards are part of the reward and a metric, also those that a reward function gives', async () => {
  const given = context();
  recordCall(given.trajectory);
  given.trajectory.rewardCall(0.25);
  const rewards: Given = {
    right: ({ trajectory }) => {
      trajectory.rewardCall(0.5);
      return 2;
    },
  };
  expect(await score(weigh(rewards), given)).toBe(2.75);
  expect(given.trajectory.metrics).toEqual({ right: 2, step_reward: 0.75 });
});

const nothing: unknown = undefined;

test.each<[string, () => number | Promise<number>, RegExp]>([
  [
    'throws',
    () => {
      throw new Error('no network');
    },
    /"right" threw: no network/,
  ],
  [
    'throws undefined',
    () => {
      throw nothing;
    },
    /"right" threw: undefined/,
  ],
  ['rejects', () => Promise.reject(new Error('late')), /"right" threw: late/],
  ['gives NaN', () => Number.NaN, /"right" gave NaN/],
  ['gives infinity', async () => Number.POSITIVE_INFINITY, /gave Infinity/],
  ['gives text', () => JSON.parse('"1"'), /gave "1", not a finite number/],
])('a reward that %s is an error that names it', async (_, right, message) => {
  const failing = score(weigh<unknown, unknown, undefined>({ right }), context());
  await expect(failing).rejects.toThrow(EnvironmentError);
  await expect(failing).rejects.toThrow(message);
  await expect(failing).rejects.toMatchObject({ code: 'reward_failed', part: 'right' });
});

test('a reward that never answers ends with its deadline, and its signal with it', async () => {
  let aborted = false;
  const hanging: Given = {
    judged: ({ signal }) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      }),
  };
  await expect(score(weigh(hanging), context(), { timeoutMs: 20 })).rejects.toMatchObject({
    code: 'reward_timeout',
    part: 'judged',
    message: expect.stringMatching(/took longer than 20 ms; raise `rewardTimeoutMs`/),
  });
  expect(aborted).toBe(true);
});

test('a sum beyond all numbers is refused', async () => {
  const rewards: Given = { a: () => Number.MAX_VALUE, b: () => Number.MAX_VALUE };
  await expect(score(weigh(rewards), context())).rejects.toMatchObject({ code: 'reward_failed' });
});
