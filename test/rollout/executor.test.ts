import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTick } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { RolloutQueue } from '../../src/rollout/executor.ts';

const never = () => new Promise<never>(() => undefined);

test('starts are spread over ticks of the event loop, in order, and other code runs in between', async () => {
  const queue = new RolloutQueue(1000);
  const begun: number[] = [];
  /** Number of started rollouts at each tick of other code. */
  const heard: number[] = [];
  let isOver = false;
  const listen = () => {
    heard.push(begun.length);
    if (!isOver) setImmediate(listen);
  };
  setImmediate(listen);
  const tasks = Array.from({ length: 200 }, (_, index) =>
    queue.run({ signal: undefined }, async () => {
      begun.push(index);
      const until = performance.now() + 1;
      while (performance.now() < until);
    }),
  );
  await Promise.all(tasks);
  isOver = true;
  expect(begun).toEqual(tasks.map((_, index) => index));
  const most = Math.max(...heard.map((count, at) => count - (heard[at - 1] ?? 0)));
  // Time slices get 8 ms per tick, and each start takes 1 ms.
  expect(most).toBeLessThanOrEqual(16);
});

test('a few start at once', async () => {
  await nextTick();
  // On a busy machine the starts themselves may use up the time of a tick.
  vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  const queue = new RolloutQueue(8);
  let begun = 0;
  for (let task = 0; task < 9; task++)
    void queue.run({ signal: undefined }, () => {
      begun++;
      return never();
    });
  expect(begun).toBe(8);
});

test('waiting work starts by its order, in the async context of its caller', async () => {
  const queue = new RolloutQueue(1);
  const caller = new AsyncLocalStorage<number>();
  const begun: (number | undefined)[] = [];
  const orders = [5, 3, 9, 1, 3];
  await Promise.all(
    orders.map((order, at) =>
      caller.run(10 * order + at, () =>
        queue.run({ signal: undefined, order }, async () => {
          await nextTick();
          begun.push(caller.getStore());
        }),
      ),
    ),
  );
  expect(begun).toEqual([50, 13, 31, 34, 92]);
});

test('work aborted while it waits ends at once, and takes no slot', async () => {
  const queue = new RolloutQueue(1);
  const first = Promise.withResolvers<void>();
  const running = queue.run({ signal: undefined }, () => first.promise);
  const controller = new AbortController();
  const waiting = queue.run({ signal: controller.signal }, async ({ aborted, reason }) => ({
    aborted,
    reason,
  }));
  controller.abort('stop');
  expect(await waiting).toEqual({ aborted: true, reason: 'stop' });
  first.resolve();
  await running;
  expect(await queue.run({ signal: undefined }, async ({ aborted }) => aborted)).toBe(false);
});

test('work aborted while it runs keeps its slot until it has ended', async () => {
  const queue = new RolloutQueue(1);
  const cleaned = Promise.withResolvers<void>();
  const controller = new AbortController();
  const ended: string[] = [];
  const running = queue.run({ signal: controller.signal }, async () => {
    await cleaned.promise;
    ended.push('first');
  });
  const next = queue.run({ signal: undefined }, async () => ended.push('second'));
  controller.abort();
  await nextTick();
  expect(ended).toEqual([]);
  cleaned.resolve();
  await Promise.all([running, next]);
  expect(ended).toEqual(['first', 'second']);
});

test('thousands that leave while they wait keep no slot and no time of those behind them', async () => {
  const queue = new RolloutQueue(1);
  const first = Promise.withResolvers<void>();
  const running = queue.run({ signal: undefined, order: 0 }, () => first.promise);
  const controller = new AbortController();
  const left = Array.from({ length: 5000 }, (_, order) =>
    queue.run({ signal: controller.signal, order }, async ({ aborted }) => aborted),
  );
  const last = queue.run({ signal: undefined, order: 6000 }, async ({ aborted }) => aborted);
  controller.abort();
  expect(new Set(await Promise.all(left))).toEqual(new Set([true]));
  first.resolve();
  await running;
  expect(await last).toBe(false);
});

test('closing ends what runs and what waits, and waits for both', async () => {
  const queue = new RolloutQueue(1);
  const ended: string[] = [];
  const run = (name: string) =>
    queue.run({ signal: undefined }, async (signal) => {
      while (!signal.aborted) await nextTick();
      await nextTick();
      ended.push(`${name}: ${signal.reason.code}`);
    });
  const all = [run('runs'), run('waits')];
  await Promise.all([queue.close(), queue.close()]);
  expect(ended.sort()).toEqual(['runs: executor_closed', 'waits: executor_closed']);
  await Promise.all([...all, run('late')]);
  expect(ended).toHaveLength(3);
  await queue.close();
});
