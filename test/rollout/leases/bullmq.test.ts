import { ModelHandle, runGroups } from 'martingale';
import { bullmq } from 'martingale/workers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startFakeService } from '../../model/fake-service.ts';
import {
  hasPostgres,
  hasRedis,
  type QueueServer,
  startPostgres,
  startRedis,
} from '../../support/queue-servers.ts';
import echoing from './echoing.ts';
import { environment, startWorker } from './workers.ts';

const scenarios = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

async function open(connection: string, options: Partial<Parameters<typeof bullmq>[0]> = {}) {
  const service = await startFakeService({
    policy: async ({ messages }) => {
      await new Promise((next) => setTimeout(next, 20));
      return { text: `re: ${String(messages.at(-1)?.content)}` };
    },
  });
  onTestFinished(() => service[Symbol.asyncDispose]());
  const events: string[] = [];
  const executor = await bullmq({
    environment,
    port: 0,
    connection,
    leaseMs: 1500,
    onEvent: ({ type }) => events.push(type),
    ...options,
  });
  onTestFinished(() => executor.close());
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  const run = (groups = 6, more: object = {}) =>
    runGroups({
      environment: echoing,
      scenarios: scenarios(groups),
      rolloutsPerGroup: 4,
      model,
      executor,
      seed: 3,
      ...more,
    });
  return { executor, events, run };
}

describe.each([
  { name: 'Redis', isThere: hasRedis, start: startRedis },
  { name: 'PostgreSQL', isThere: hasPostgres, start: startPostgres },
])('a queue in $name', ({ isThere, start }) => {
  let server: QueueServer;
  beforeAll(async () => {
    if (isThere) server = await start();
  });
  afterAll(() => server?.close());

  it.skipIf(!isThere)('brings rollouts to workers, which serve one program after the other', async () => {
    const worker = startWorker(['--queue', server.url, '--concurrency', '4']);
    const first = await open(server.url);
    expect((await first.run()).counts).toEqual({ dispatched: 24, completed: 24, failed: 0, cancelled: 0 });
    await first.executor.close();
    const second = await open(server.url);
    expect((await second.run()).counts).toMatchObject({ completed: 24 });
    expect(second.executor.stats()).toMatchObject({ waiting: 0, running: 0, givenAgain: 0 });
    await second.executor.close();
    worker.process.kill('SIGTERM');
    expect(await worker.ended).toBe(0);
    expect(worker.lines()).toMatch(/48 rollouts: 48 completed/);
  });

  it.skipIf(!isThere)('gets back at once what a worker with another key has taken', async () => {
    // A lease that were only announced again after leaseMs would miss the test's deadline.
    const { run } = await open(server.url, { apiKey: 'right', leaseMs: 600_000 });
    const refused = startWorker(['--queue', server.url, '--key', 'wrong']);
    const running = run(2);
    while (!refused.lines().includes('are left to other workers'))
      await new Promise((next) => setTimeout(next, 20));
    startWorker(['--queue', server.url, '--key', 'right']);
    expect((await running).counts).toMatchObject({ completed: 8 });
  });

  it.skipIf(!isThere)('loses nothing with a worker that is killed', { tags: ['long'] }, async () => {
    const { executor, run } = await open(server.url);
    const doomed = startWorker(['--queue', server.url, '--concurrency', '8']);
    const running = run(20);
    while ((executor.stats().workers[0]?.ended ?? 0) < 10) await new Promise((next) => setTimeout(next, 5));
    doomed.process.kill('SIGKILL');
    startWorker(['--queue', server.url, '--concurrency', '8']);
    expect((await running).counts).toEqual({ dispatched: 80, completed: 80, failed: 0, cancelled: 0 });
    expect(executor.stats().givenAgain).toBeGreaterThan(0);
  });

  it.skipIf(!isThere)('may be there later than its workers', { tags: ['long'] }, async () => {
    await server.kill();
    const worker = startWorker(['--queue', server.url, '--wait', '30']);
    while (!worker.lines().includes('ECONNREFUSED')) await new Promise((next) => setTimeout(next, 20));
    await server.restart();
    const { run } = await open(server.url);
    expect((await run(2)).counts).toMatchObject({ completed: 8 });
  });

  it.skipIf(!isThere)('may lose its jobs, and be away for a while', { tags: ['long'] }, async () => {
    const { executor, run, events } = await open(server.url);
    const worker = startWorker(['--queue', server.url, '--concurrency', '2']);
    const running = run(20);
    while ((executor.stats().workers[0]?.ended ?? 0) < 10) await new Promise((next) => setTimeout(next, 5));
    await server.kill();
    await new Promise((next) => setTimeout(next, 1000));
    await server.restart();
    expect((await running).counts).toEqual({ dispatched: 80, completed: 80, failed: 0, cancelled: 0 });
    expect(events).toContain('queue_away');
    worker.process.kill('SIGTERM');
    expect(await worker.ended).toBe(0);
  });
});

it('refuses a connection that it does not know, and says which server does not answer', async () => {
  const refused = (options: object) =>
    expect(bullmq({ environment, port: 0, connection: 'redis://127.0.0.1:1', ...options })).rejects;
  await refused({ connection: 'mysql://secret@127.0.0.1' }).toThrow(/`connection`.*redis: or postgres:/);
  await refused({ connection: 'mysql://secret@127.0.0.1' }).not.toThrow(/secret/);
  await refused({ host: '0.0.0.0', apiKey: 'key' }).toThrow(/`url`/);
  await refused({ url: 'there' }).toThrow(/`url` is "there"/);
});

it('a server that cannot be reached at the start is named', { tags: ['long'] }, async () => {
  await expect(bullmq({ environment, port: 0, connection: 'redis://127.0.0.1:1' })).rejects.toMatchObject({
    code: 'queue_unreachable',
    message: expect.stringMatching(/ECONNREFUSED/),
  });
});

it.each(['redis://127.0.0.1:1', 'postgres://127.0.0.1:1/none'])(
  'a worker whose queue %s cannot be reached says so and ends',
  { tags: ['long'] },
  async (queue) => {
    const worker = startWorker(['--queue', queue, '--wait', '2']);
    expect(await worker.ended).toBe(1);
    expect(worker.lines()).toMatch(/cannot be reached: .*ECONNREFUSED.*queue_unreachable/);
    expect(worker.lines()).not.toMatch(/takes up to/);
  },
);

it.skipIf(!hasRedis)(
  'a program with another key does not end the workers of its queue',
  {
    tags: ['long'],
  },
  async () => {
    const server = await startRedis();
    onTestFinished(() => server.close());
    const worker = startWorker(['--queue', server.url, '--key', 'right']);
    const other = await open(server.url, { apiKey: 'other', waitForWorkersMs: 4000 });
    const { groups } = await other.run(1);
    const message = expect.stringMatching(
      /--queue <url>.*the queue martingale-echoing-\w+, have the same key/,
    );
    expect(groups[0]?.rollouts[0]).toMatchObject({ failure: { code: 'no_workers', message } });
    expect(other.events).toContain('refused');
    const own = await open(server.url, { apiKey: 'right' });
    expect((await own.run(2)).counts).toMatchObject({ completed: 8 });
    expect(worker.lines()).toMatch(/left to other workers: .*--key/);
  },
);
