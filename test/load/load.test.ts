// The service and a harness under load, each in its own process.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { testScale } from '../support/size.ts';
import type { CallersFigures, CallersPlan } from './driver/callers.ts';
import { startCallers, startLoadService } from './driver/processes.ts';
import { printed } from './driver/table.ts';

/** How long a load is held, with a scale. */
const seconds = 60 * testScale;

const begin = (plan: CallersPlan) => {
  const callers = startCallers(plan);
  onTestFinished(() => callers[Symbol.asyncDispose]());
  return callers;
};

function expectAllAnswered(figures: CallersFigures, calls: number): void {
  expect(figures.failed).toEqual({});
  expect(figures.answered).toBe(calls);
}

const mebibytes = (bytes: number) => Math.round(bytes / 2 ** 20);

const plan = { budget: null, replyTokens: 8 } as const;

test('2,000 clients at once, each on a connection of its own, are all answered', async () => {
  await using service = await startLoadService({
    engine: { kind: 'delayed', delayMs: 50, places: 500, tokens: 8 },
  });
  const { url, apiKey } = service;
  const calls = 2200;
  const clients = begin({
    ...{ ...plan, url, apiKey, calls, model: 'scripted-tiny' },
    ...{ kind: 'connections', callers: 2000 },
  });
  const figures = await clients.done;
  expectAllAnswered(figures, calls);
  const own = await service.figures();
  expect(own.statuses).toEqual({ 200: calls });
  expect(own.inHand).toBe(0);
  // The process's own computation, whatever else the machine does.
  expect(own.loop.busyMax).toBeLessThan(500);
}, 240_000);

async function retriesBeyondLimits(calls: number): Promise<void> {
  await using service = await startLoadService({
    engine: { kind: 'delayed', delayMs: 100, places: 10, tokens: 8 },
    options: { limits: { replies: 50 } },
  });
  const { url, apiKey } = service;
  const harness = begin({
    ...{ ...plan, url, apiKey, calls, model: 'scripted-tiny', budget: calls },
    ...{ kind: 'harness', callers: calls },
  });
  expectAllAnswered(await harness.done, calls);
  const { statuses, mostInHand, inHand } = await service.figures();
  expect(Object.keys(statuses).toSorted()).toEqual(['200', '429']);
  expect(statuses[200]).toBe(calls);
  expect(mostInHand).toBeLessThanOrEqual(50);
  expect(inHand).toBe(0);
}

test(
  '150 requests beyond the limits get a 429 and finally an answer, and the limit in flight holds',
  {
    tags: ['long'],
  },
  () => retriesBeyondLimits(150),
);

test('a model with a thousand requests does not delay another, whichever it is', {
  tags: ['long'],
}, async () => {
  await using service = await startLoadService({ engine: { kind: 'embedded', largestBatch: 32 } });
  const { url, apiKey } = service;
  const crowd = begin({
    ...{ ...plan, url, apiKey, calls: null, model: 'martingale-tiny', replyTokens: 64 },
    ...{ kind: 'harness', callers: 1000 },
  });
  await expect.poll(async () => (await crowd.figures()).answered).toBeGreaterThan(0);
  const single = await begin({
    ...{ ...plan, url, apiKey, calls: 3, model: 'martingale-small' },
    ...{ kind: 'connections', callers: 1 },
  }).done;
  expectAllAnswered(single, 3);
  // Three replies of one model while most of the other model's first calls still wait.
  expect((await crowd.figures()).answered).toBeLessThan(1000);
});

test.runIf(testScale > 1)(
  '16,000 calls of one harness and 2,000 clients are served for minutes with constant memory',
  { tags: ['long'], timeout: seconds * 1000 + 120_000 },
  async () => {
    await using service = await startLoadService({ engine: { kind: 'embedded' } });
    const { url, apiKey } = service;
    const common = { ...plan, url, apiKey, calls: null };
    const crowds = [
      begin({ ...common, kind: 'harness', callers: 16_000, model: 'martingale-tiny', budget: 16_000 }),
      begin({ ...common, kind: 'connections', callers: 2000, model: 'martingale-small' }),
    ];
    const table = printed();
    const ends = performance.now() + seconds * 1000;
    // What remains after every caller is answered. V8 lets the heap itself grow to several times as much.
    const warm = ends - seconds * 600;
    let live: number | undefined;
    while (performance.now() < ends) {
      await sleep(Math.min(10_000, ends - performance.now()));
      table.add(await service.figures(), await Promise.all(crowds.map((crowd) => crowd.figures())));
      if (performance.now() > warm) live ??= await service.liveHeap();
    }
    const last = table.rows.at(-1);
    for (const crowd of last?.crowds ?? []) expect(crowd.failed).toEqual({});
    expect(Object.keys(last?.service.statuses ?? {}).filter((status) => status >= '500')).toEqual([]);
    // Constant: what was there then, and caches that fill up.
    const liveAtEnd = await service.liveHeap();
    console.log(`live heap: ${mebibytes(live ?? 0)} MiB when warm, ${mebibytes(liveAtEnd)} MiB at the end`);
    expect(liveAtEnd).toBeLessThan(1.1 * (live ?? 0));
  },
);
