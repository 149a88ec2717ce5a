import { generateText } from 'ai';
import {
  defineEnvironment,
  deriveSeed,
  type GroupStrategy,
  inProcess,
  ModelHandle,
  type RolloutContext,
  type RolloutCounts,
  runGroup,
} from 'martingale';
import { countRollouts } from 'martingale/loop';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../model/fake-service.ts';

const scenario = z.object({});
type Context = RolloutContext<object>;

interface Running {
  strategy?: GroupStrategy;
  rolloutsPerGroup?: number;
  concurrency?: number;
  groupTimeoutMs?: number;
  signal?: AbortSignal;
  rollout?: (context: Context, call: number) => Promise<unknown>;
  group?: number;
}

/** Runs one group. The rollout function gets the number of rollouts that began before it. */
async function run({ rollout = async () => 'done', ...options }: Running) {
  await using service = await startFakeService({ policy: () => ({ text: 'fine' }) });
  let begun = 0;
  const ends: { status: string; isLast: boolean }[] = [];
  const environment = defineEnvironment({
    name: 'one',
    scenario,
    rollout: async (context) => {
      const call = begun++;
      await generateText({ model: context.model.languageModel, prompt: 'a', abortSignal: context.signal });
      return rollout(context, call);
    },
    rewards: { done: ({ outcome }) => Number(outcome === 'done') },
  });
  const group = await runGroup({
    environment,
    scenario: {},
    rolloutsPerGroup: options.rolloutsPerGroup ?? 4,
    model: new ModelHandle({ client: service.client, name: 'local/p/n:step1' }),
    group: options.group ?? 0,
    seed: 7,
    executor: inProcess({ concurrency: options.concurrency ?? 8 }),
    groupStrategy: options.strategy,
    timeoutMs: 30_000,
    rewardTimeoutMs: 30_000,
    groupTimeoutMs: options.groupTimeoutMs ?? Number.POSITIVE_INFINITY,
    onUnexpectedCall: 'error',
    onRollout: ({ status }, { isLast }) => ends.push({ status, isLast }),
    signal: options.signal,
  });
  const counts: RolloutCounts = countRollouts(group.rollouts);
  expect(ends).toHaveLength(counts.dispatched);
  return { group, counts, ends };
}

const forever = () => new Promise<never>(() => undefined);
const failing =
  (...calls: number[]) =>
  async (_: Context, call: number) => {
    if (calls.includes(call)) throw new Error(`call ${call} broke`);
    return 'done';
  };

test('a group with enough completed rollouts trains without the others', async () => {
  const { group, counts } = await run({ rollout: failing(0, 2), strategy: { type: 'minimum', share: 0.5 } });
  expect(counts).toEqual({ dispatched: 4, completed: 2, failed: 2, cancelled: 0 });
  expect(group.isTrainable).toBe(true);
  expect(group.droppedBecause).toBeNull();
  expect(group.toTrajectoryGroup().toBody()).toMatchObject({
    trajectories: [{ reward: 1 }, { reward: 1 }],
    exceptions: [{ type: 'Error' }, { type: 'Error' }],
  });
});

test('a group with too few completed rollouts is dropped with its reason, and its trajectories are kept', async () => {
  const { group } = await run({ rollout: failing(0), strategy: { type: 'minimum', share: 0.9 } });
  expect(group.isTrainable).toBe(false);
  expect(group.droppedBecause?.code).toBe('too_few_completed');
  expect(group.droppedBecause?.message).toMatch(
    /3 of the group's 4 .* requires 4: 1 x Error \(call 0 broke at test\/rollout\/run-group.test.ts:\d+:\d+\)/,
  );
  expect(group.trajectories).toHaveLength(3);
});

test('by default one completed rollout alone does not train, but a group of one does', async () => {
  const alone = await run({ rollout: failing(0, 1, 2) });
  expect(alone.group.isTrainable).toBe(false);
  const single = await run({ rolloutsPerGroup: 1 });
  expect(single.group.isTrainable).toBe(true);
  const none = await run({ rolloutsPerGroup: 1, rollout: failing(0) });
  expect(none.group.isTrainable).toBe(false);
});

test('a failed rollout is retried under another seed, each attempt in the counts', async () => {
  const { group, counts, ends } = await run({
    rollout: failing(0, 1, 2, 3, 4),
    strategy: { type: 'retry', attempts: 3, minimum: 4 },
    concurrency: 1,
    group: 5,
  });
  expect(counts).toEqual({ dispatched: 9, completed: 4, failed: 5, cancelled: 0 });
  expect(group.isTrainable).toBe(true);
  expect(group.rollouts.map(({ index, attempt }) => [index, attempt])).toEqual(
    [...group.rollouts]
      .sort((a, b) => a.index - b.index || a.attempt - b.attempt)
      .map(({ index, attempt }) => [index, attempt]),
  );
  for (const { index, attempt, seed } of group.rollouts)
    expect(seed).toBe(attempt === 0 ? deriveSeed(7, 5, index) : deriveSeed(7, 5, index, attempt));
  expect(ends.filter(({ isLast }) => isLast)).toHaveLength(4);
});

test('retries end after the last attempt, and the group is dropped', async () => {
  const { group, counts } = await run({
    rollout: async () => {
      throw new Error('always');
    },
    strategy: { type: 'retry', attempts: 2 },
    rolloutsPerGroup: 3,
  });
  expect(counts).toEqual({ dispatched: 6, completed: 0, failed: 6, cancelled: 0 });
  expect(group.droppedBecause?.message).toMatch(
    /6 x Error \(always at test\/rollout\/run-group.test.ts:\d+:\d+\)/,
  );
});

test('with fail_fast the first failed rollout cancels the others, also those that wait for a slot', async () => {
  const { group, counts } = await run({
    rollout: (_, call) => (call === 0 ? Promise.reject(new Error('first')) : forever()),
    strategy: { type: 'fail_fast' },
    rolloutsPerGroup: 6,
    concurrency: 3,
  });
  expect(counts).toEqual({ dispatched: 6, completed: 0, failed: 1, cancelled: 5 });
  expect(group.droppedBecause).toMatchObject({ code: 'Error', message: 'first' });
  expect(group.isTrainable).toBe(false);
  expect(group.rollouts[5]).toMatchObject({ status: 'cancelled', failure: { code: 'sibling_failed' } });
});

test('a cancelled rollout is not retried', async () => {
  const stop = new AbortController();
  const { group, counts } = await run({
    rollout: (_, call) => {
      if (call === 1) stop.abort(new Error('enough'));
      return forever();
    },
    strategy: { type: 'retry', attempts: 5 },
    signal: stop.signal,
  });
  expect(counts).toEqual({ dispatched: 4, completed: 0, failed: 0, cancelled: 4 });
  expect(group.droppedBecause?.message).toMatch(/4 x cancelled/);
});

test("a group's deadline fails what has not ended, what waits for room included, and is not retried", async () => {
  const { group, counts } = await run({
    rollout: (_, call) => (call < 2 ? Promise.resolve('done') : forever()),
    strategy: { type: 'retry', attempts: 3 },
    rolloutsPerGroup: 6,
    concurrency: 2,
    groupTimeoutMs: 400,
  });
  expect(counts).toEqual({ dispatched: 6, completed: 2, failed: 4, cancelled: 0 });
  for (const rollout of group.rollouts.slice(2))
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'group_timeout' } });
  expect(group.isTrainable).toBe(true);
});
