import { generateText, streamText } from 'ai';
import { callBudget, ModelHandle, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { expect, test } from 'vitest';
import { startFakeService } from './fake-service.ts';
import { startLimitedService } from './limited-service.ts';

const ask = (model: ModelHandle, abortSignal?: AbortSignal) =>
  generateText({
    model: model.languageModel,
    prompt: 'a',
    maxRetries: 0,
    ...(abortSignal ? { abortSignal } : {}),
  });
const many = (model: ModelHandle, calls: number) =>
  Promise.all(Array.from({ length: calls }, () => ask(model)));
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const idle = { inFlight: 0, waiting: 0 };

test('a fixed budget limits the calls of all handles that share it', async () => {
  await using service = await startLimitedService({ limit: 100, delayMs: () => 1 });
  const budget = callBudget({ concurrency: 5 });
  const [one, other] = [service.model.with({ budget }), service.model.with({ budget, temperature: 0.5 })];
  await Promise.all([many(one, 40), many(other, 40)]);
  expect(service.seen).toMatchObject({ answered: 80, refused: 0 });
  // Some of the five may be in transit.
  expect(service.seen.most).toBeLessThanOrEqual(5);
  expect(budget.stats()).toEqual({
    ...{ limit: 5, peak: 5, ...idle },
    decreases: { rateLimited: 0, latency: 0 },
  });
});

test.each([429, 503] as const)(
  'the budget adapts to a service that answers %i beyond 24 calls, and every call succeeds',
  { tags: ['long'] },
  async (status) => {
    await using service = await startLimitedService({ limit: 24, status, delayMs: () => 20 });
    const budget = callBudget({ concurrency: { min: 1, max: 1000 } });
    const model = service.model.with({ budget });
    const limits: number[] = [];
    await Promise.all(
      Array.from({ length: 2000 }, async () => {
        await ask(model);
        limits.push(budget.stats().limit);
      }),
    );
    expect(service.seen).toMatchObject({ answered: 2000, most: 24 });
    // The limit adapts to the capacity, so few calls are rejected.
    expect(service.seen.refused).toBeLessThan(500);
    expect(mean(limits.slice(500))).toBeGreaterThan(12);
    expect(mean(limits.slice(500))).toBeLessThan(72);
    expect(budget.stats()).toMatchObject(idle);
    expect(budget.stats().decreases.rateLimited).toBeGreaterThan(2);
  },
);

test('a service that slows down under load is kept at the target latency', {
  tags: ['long'],
}, async () => {
  await using service = await startLimitedService({ limit: 10_000, delayMs: (inFlight) => inFlight * 3 });
  const budget = callBudget({ concurrency: { min: 2, max: 1000 }, targetLatencyMs: 60 });
  await many(service.model.with({ budget }), 800);
  expect(budget.stats().decreases.latency).toBeGreaterThan(0);
  expect(budget.stats().limit).toBeLessThan(60);
  expect(service.seen).toMatchObject({ answered: 800, refused: 0 });
});

test('without a target, latency that rises beyond three times the smallest lowers the limit', {
  tags: ['long'],
}, async () => {
  await using service = await startLimitedService({
    limit: 10_000,
    delayMs: (inFlight) => (inFlight > 40 ? 200 : 10),
  });
  const budget = callBudget({ concurrency: { min: 16, max: 1000 } });
  await many(service.model.with({ budget }), 1000);
  expect(budget.stats().decreases).toMatchObject({ rateLimited: 0, latency: expect.any(Number) });
  expect(budget.stats().decreases.latency).toBeGreaterThan(0);
});

test('the limit stays within its bounds, and does not rise while slots are free', async () => {
  await using service = await startLimitedService({ limit: 2, delayMs: () => 1 });
  const bounded = callBudget({ concurrency: { min: 3, max: 100, start: 6 } });
  await many(service.model.with({ budget: bounded }), 100);
  expect(bounded.stats().limit).toBeGreaterThanOrEqual(3);
  const unused = callBudget({ concurrency: { min: 1, max: 100, start: 50 } });
  for (let call = 0; call < 40; call++) await ask(service.model.with({ budget: unused }));
  expect(unused.stats().limit).toBe(50);
  const most = callBudget({ concurrency: { min: 1, max: 2 } });
  await many(service.model.with({ budget: most }), 50);
  expect(most.stats()).toMatchObject({ limit: 2, peak: 2 });
});

test('a call that waits for a slot can be aborted and takes none', async () => {
  await using service = await startLimitedService({ limit: 100, delayMs: () => Number.POSITIVE_INFINITY });
  const budget = callBudget({ concurrency: 1 });
  const model = service.model.with({ budget });
  const [first, second] = [new AbortController(), new AbortController()];
  const running = ask(model, first.signal).catch((error) => error);
  const waiting = ask(model, second.signal).catch((error) => error);
  await expect.poll(() => budget.stats()).toMatchObject({ inFlight: 1, waiting: 1 });
  second.abort(new Error('not any more'));
  expect(await waiting).toMatchObject({ message: 'not any more' });
  expect(budget.stats()).toMatchObject({ inFlight: 1, waiting: 0 });
  first.abort(new Error('nor this'));
  expect(await running).toMatchObject({ message: 'nor this' });
  expect(budget.stats()).toMatchObject(idle);
});

test('a call to a silent service fails after callTimeoutMs, counted from its slot, with its own code', async () => {
  await using service = await startLimitedService({ limit: 100, delayMs: () => Number.POSITIVE_INFINITY });
  const budget = callBudget({ concurrency: 1 });
  const model = service.model.with({ budget, callTimeoutMs: 50 });
  const ended = await Promise.allSettled([ask(model), ask(model), ask(model)]);
  for (const result of ended)
    expect(result).toMatchObject({
      status: 'rejected',
      reason: { code: 'model_call_timeout', message: expect.stringContaining('50 ms') },
    });
  expect(service.seen.most).toBe(1);
  expect(budget.stats()).toMatchObject(idle);
});

test('a stream holds its slot until it is read', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'fine' }) });
  const budget = callBudget({ concurrency: 1 });
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' }).with({ budget });
  const texts = [1, 2, 3].map(async () => streamText({ model: model.languageModel, prompt: 'a' }).text);
  expect(await Promise.all(texts)).toEqual(['fine', 'fine', 'fine']);
  expect(budget.stats()).toMatchObject({ ...idle, peak: 1 });
});

test('an unread stream frees its slot when its rollout ends', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'fine' }) });
  const budget = callBudget({ concurrency: 1 });
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' }).with({ budget });
  const rollout = new AbortController();
  const trajectory = new Trajectory({ signal: rollout.signal });
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'a' }] }];
  await runInTrajectory(trajectory, () => model.languageModel.doStream({ prompt }));
  expect(budget.stats()).toMatchObject({ inFlight: 1 });
  rollout.abort(new Error('over'));
  await expect.poll(() => budget.stats()).toMatchObject(idle);
  expect((await ask(model)).text).toBe('fine');
});

test('invalid budgets are refused by name', () => {
  expect(() => callBudget({ concurrency: 0 })).toThrow(/`concurrency` is 0/);
  expect(() => callBudget({ concurrency: 4, targetLatencyMs: 10 })).toThrow(/`targetLatencyMs` is 10/);
  expect(() => callBudget({ concurrency: { min: 4, max: 2 } })).toThrow(/`concurrency\.max` is 2/);
  expect(() => callBudget({ concurrency: { min: 1, max: 2, start: 3 } })).toThrow(
    /`concurrency\.start` is 3/,
  );
  expect(() => callBudget({ concurrency: { min: 1, max: 2 }, targetLatencyMs: -1 })).toThrow(
    /`targetLatencyMs` is -1/,
  );
});
