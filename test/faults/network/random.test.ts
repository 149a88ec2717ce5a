/* Whole runs through a network that fails at random, drawn from a seed. */
import { evaluate, sft } from 'martingale';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testScale, testSeed } from '../../support/size.ts';
import { draw } from '../dice.ts';
import * as faults from './faults.ts';
import { type Fault, type FaultyProxy, type ProxiedRequest, pass } from './proxy.ts';
import { environment, startTrainingWorld } from './training-world.ts';

const json = { 'content-type': 'application/json' };
const html = { 'content-type': 'text/html' };
const { afterwards, instead, reply } = faults;
const page = '<h1>Sign in to the network</h1>';

const kinds: Record<string, Fault> = {
  'passed on': pass,
  reset: faults.reset,
  'cut in the request': faults.cutRequest,
  'reply lost': faults.loseReply,
  'reply lost early': faults.loseReplyEarly,
  'cut in the reply': faults.cutReply,
  'cut in the head of the reply': faults.cutReplyHead,
  'cut behind the first event': faults.cutBehind('\n\n'),
  delayed: faults.delay(20),
  'a byte at a time': faults.drip,
  swallowed: faults.silence,
  'kept back': faults.mute,
  'out of order': faults.outOfOrder,
  twice: faults.twice,
  'twice at once': faults.twiceAtOnce,
  'reply twice': faults.replyTwice,
  429: instead(reply('429 Too Many Requests', json, '{"detail":"slow down"}')),
  '429 with Retry-After': instead(reply('429 Too Many Requests', { 'retry-after': '0.01' }, '')),
  500: instead(reply('500 Internal Server Error', json, '{"detail":"broken"}')),
  '502 with a page': instead(reply('502 Bad Gateway', html, page)),
  '502 having acted': afterwards(reply('502 Bad Gateway', html, page)),
  503: instead(reply('503 Service Unavailable', { ...json, 'retry-after': '0' }, '{"detail":"busy"}')),
  '503 having acted': afterwards(reply('503 Service Unavailable', html, page)),
  'JSON that is none': afterwards(reply('200 OK', json, '{"id": oops')),
  'JSON cut short': faults.truncate,
  'JSON of another shape': afterwards(reply('200 OK', json, '{"hello":["world"]}')),
  'an empty 200': afterwards(reply('200 OK', json, '')),
  'a page with status 200': instead(reply('200 OK', html, page)),
  'no HTTP': afterwards(Buffer.from('SSH-2.0-something\r\n\r\n')),
  'a header of 100 kB': afterwards(reply('200 OK', { ...json, 'x-long': 'x'.repeat(100_000) }, '{}')),
};
/** Weights of the faults: 100 of 128 requests pass. */
const weights = Object.fromEntries(
  Object.keys(kinds).map((kind) => [
    kind,
    kind === 'passed on' ? 100 : ['swallowed', 'kept back'].includes(kind) ? 0.5 : 1,
  ]),
);
const met = new Map<string, number>();

function fail(proxy: FaultyProxy, seed: number, knowsKeys: boolean): void {
  proxy.fault = (request) => {
    const kind = possible(draw(seed * 1_000_003 + request.index, weights), request, knowsKeys);
    met.set(kind, (met.get(kind) ?? 0) + 1);
    return kinds[kind] ?? pass;
  };
}

/** Faults that can only happen to some requests. */
function possible(kind: string, request: ProxiedRequest, knowsKeys: boolean): string {
  const isChat = request.path.endsWith('/chat/completions');
  // Alone, it would wait forever for another.
  if (kind === 'out of order' && !isChat) return 'delayed';
  // A service without keys does twice what the network sends twice.
  if (kind.startsWith('twice') && !knowsKeys && request.method === 'POST' && !isChat) return 'reply lost';
  return kind;
}

const rejections: unknown[] = [];
const onRejection = (reason: unknown) => rejections.push(reason);
const warnings: string[] = [];
const onWarning = (warning: Error & { code?: string }) => warnings.push(String(warning.code));
beforeAll(() => {
  process.on('unhandledRejection', onRejection);
  process.on('warning', onWarning);
});
afterAll(() => {
  process.off('unhandledRejection', onRejection);
  process.off('warning', onWarning);
  if (testScale > 1)
    console.info(Object.fromEntries([...met].sort(([, a], [, b]) => b - a)), warnings.length);
});

const examples = [0, 1, 2, 3].map((n) => ({
  messages: [
    { role: 'user' as const, content: `toss ${n}` },
    { role: 'assistant' as const, content: String(n % 2) },
  ],
}));

/** Trains with a warm start and evaluates; returns the number of requests that took. */
async function wholeRun(seed: number, knowsKeys: boolean): Promise<number> {
  await using world = await startTrainingWorld({ knowsKeys, client: { retries: 10, timeoutMs: 1500 } });
  const { engine, proxy, client } = world;
  fail(proxy, seed, knowsKeys);
  const lostJob = { waitMs: 3000, decision: 'ask_again' } as const;

  const model = await world.open();
  const supervised = await sft({ model, examples, batchSize: 2, lostJob });
  expect([supervised.model.step, engine.trainings]).toEqual([1, 1]);

  const validation = { scenarios: [5, 6, 7, 8, 9, 10, 11, 12].map((id) => ({ id })), everySteps: 2 };
  const result = await world.train({ steps: 4, seed, validation, lostJob });
  const trained = result.reports.filter(({ groupsWithSignal }) => groupsWithSignal > 0).length;
  expect([result.reason, result.reports.length]).toEqual(['finished', 4]);
  expect(engine.trainings).toBe(1 + trained);
  expect(result.finalStep).toBe(1 + trained);
  expect((await world.checkpoints()).at(-1)).toBe(1 + trained);
  const { dispatched, completed, failed, cancelled } = result.counts;
  expect([dispatched, dispatched]).toEqual([4 * 8, completed + failed + cancelled]);
  for (const report of result.reports)
    expect(report.dispatched).toBe(report.completed + report.failed + report.cancelled);

  const evaluation = await evaluate({ environment, scenarios: validation.scenarios, model: result.model });
  const counts = evaluation.counts;
  expect(counts.dispatched).toBe(counts.completed + counts.failed + counts.cancelled);

  proxy.fault = () => pass;
  expect(await client.health()).toEqual({ status: 'ok' });
  await client.close();
  await expect.poll(() => proxy.open).toBe(0);
  const jobs = await world.count('SELECT count(*) AS n FROM jobs');
  expect(jobs).toBe(1 + trained);
  // Each step once, and the validations before, between and after.
  if (knowsKeys) expect(await world.count('SELECT count(*) AS n FROM logs')).toBe(4 + 3);
  else expect(await world.count('SELECT count(*) AS n FROM logs')).toBeLessThanOrEqual(4 + 3);
  return proxy.seen.length;
}

describe.each([true, false])('a network that fails at every fifth request, keys known: %s', (knowsKeys) => {
  test('lets a run train each step once', { timeout: 120_000 }, async () => {
    expect(await wholeRun(testSeed + 2, knowsKeys)).toBeGreaterThan(50);
    expect(rejections).toEqual([]);
  });

  const least = 300 * testScale;
  test(`lets runs of ${least} requests train each step once`, {
    tags: ['long'],
    timeout: 1200 * least,
  }, async () => {
    let requests = 0;
    for (let seed = testSeed + 3; requests < least; seed++) requests += await wholeRun(seed, knowsKeys);
    expect(rejections).toEqual([]);
  });
});
