import { EnvironmentError, type Rewards, Trajectory } from 'martingale';
import { expect, test } from 'vitest';
import { score, withWeights } from '../../../src/environment/rewards/score.ts';
import { recordCall } from '../record-call.ts';

type Given = Rewards<{ goal: number }, number>;

const context = () => ({
  scenario: { goal: 3 },
  outcome: 3,
  state: undefined,
  trajectory: new Trajectory(),
  signal: new AbortController().signal,
});

test('the reward is the weighted sum; each value becomes a metric; weight 0 is only a metric', async () => {
  const rewards: Given = {
    right: ({ scenario: { goal }, outcome }) => Number(goal === outcome),
    short: { weight: 0.5, reward: async () => 4 },
    watched: { weight: 0, reward: () => 100 },
  };
  const given = context();
  expect(await score(withWeights(rewards), given)).toBe(3);
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
  await score(withWeights({ a: slow('a', 5), b: slow('b', 0) }), context());
  expect(order).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
});

test('step rewards, including those that a reward sets, are part of the reward and a metric', async () => {
  const given = context();
  recordCall(given.trajectory);
  given.trajectory.rewardCall(0.25);
  const rewards: Given = {
    right: ({ trajectory }) => {
      trajectory.rewardCall(0.5);
      return 2;
    },
  };
  expect(await score(withWeights(rewards), given)).toBe(2.75);
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
  ['rejects', () => Promise.reject(new Error('late.')), /"right" threw: late\. The/],
  ['returns NaN', () => Number.NaN, /"right" returned NaN/],
  ['returns infinity', async () => Number.POSITIVE_INFINITY, /returned Infinity/],
  ['returns text', () => JSON.parse('"1"'), /returned "1", not a finite number/],
  [
    'returns a boolean',
    () => JSON.parse('true'),
    /returned true, not a finite number\. Return Number\(\.\.\.\)/,
  ],
])('a reward that %s is an error that names it', async (_, right, message) => {
  const failing = score(withWeights({ right }), context());
  await expect(failing).rejects.toThrow(EnvironmentError);
  await expect(failing).rejects.toThrow(message);
  await expect(failing).rejects.toMatchObject({ code: 'reward_failed', part: 'right' });
});

test('a reward that never returns ends at its deadline, and its signal aborts', async () => {
  let aborted = false;
  const hanging: Given = {
    judged: ({ signal }) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      }),
  };
  await expect(score(withWeights(hanging), context(), { timeoutMs: 20 })).rejects.toMatchObject({
    code: 'reward_timeout',
    part: 'judged',
    message: expect.stringMatching(/took longer than 20 ms. Raise `rewardTimeoutMs`/),
  });
  expect(aborted).toBe(true);
});

test('an infinite sum is refused', async () => {
  const rewards: Given = { a: () => Number.MAX_VALUE, b: () => Number.MAX_VALUE };
  await expect(score(withWeights(rewards), context())).rejects.toMatchObject({ code: 'reward_failed' });
});
