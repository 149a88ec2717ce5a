import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Adapters } from '../../../src/engines/tinker/adapters.ts';
import { TinkerApi } from '../../../src/engines/tinker/tinker-api.ts';
import { train } from '../../../src/engines/tinker/train.ts';
import { sharedFolder } from '../../support/files.ts';
import { batch, sampleFrom, serverOf, tinkerEngines, untrained, vocabularySize } from './support.ts';
import type { TinkerServer } from './tinker-server.ts';

const folder = sharedFolder();
const { open, trainOnce } = tinkerEngines(folder);

test('a new checkpoint is sampled without loading its weights, and an evicted one after loading them', async () => {
  const server = await serverOf();
  const engine = await open(server, { adapters: 3 });
  const loads = () => server.received.filter(({ path }) => path.endsWith('load_weights')).length;
  const first = await trainOnce(engine, untrained, 'first');
  const reply = await sampleFrom(engine, first.weights);
  expect(loads()).toBe(0);
  const second = await trainOnce(engine, first.weights, 'second');
  await sampleFrom(engine, second.weights);
  // Only training loaded them.
  expect(loads()).toBe(1);
  const third = await trainOnce(engine, second.weights, 'third');
  await sampleFrom(engine, third.weights);
  expect(loads()).toBe(2);
  expect(await sampleFrom(engine, first.weights)).toEqual(reply);
  expect(loads()).toBe(3);
  expect(server.openAdapters).toBeLessThanOrEqual(3);
});

test('an engine that is closed leaves its places to the next', async () => {
  const server = await serverOf();
  server.places = 4;
  for (let turn = 0; turn < 3; turn++) {
    const engine = await open(server);
    const { weights } = await trainOnce(engine, untrained, 'one');
    await sampleFrom(engine, weights);
    await sampleFrom(engine, untrained);
    await engine.close();
    await expect.poll(() => server.openAdapters).toBe(0);
  }
});

test.each([
  ['creates an adapter', 'create_model'],
  ['samples', 'asample'],
  ['waits for the result of a pass', 'forward_backward'],
])('an opening that is aborted while the server %s leaves no place taken', async (_, path) => {
  const server = await serverOf();
  const stop = new AbortController();
  const served = Promise.withResolvers<void>();
  server.hold = (received) => {
    if (!received.path.endsWith(path)) return undefined;
    stop.abort('enough');
    // The server goes on, whoever waits.
    setImmediate(served.resolve);
    return served.promise;
  };
  await expect(open(server, { signal: stop.signal })).rejects.toBe('enough');
  expect(server.openAdapters).toBe(0);
});

test('an opening that waits for a place ends with its signal', async () => {
  const server = await serverOf();
  server.others = server.places;
  const stop = new AbortController();
  const onWait = () => stop.abort('enough');
  await expect(open(server, { onWait, signal: stop.signal })).rejects.toBe('enough');
  expect(server.openAdapters).toBe(0);
});

/** A server that another program fills until the engine has asked `times` for a place. */
function fillUntilAsked(server: TinkerServer, times: number): void {
  server.others = server.places;
  let refused = 0;
  server.fault = ({ path }, when) => {
    if (path.endsWith('create_model') && when === 'after' && ++refused === times) server.others = 0;
    return undefined;
  };
}

test('a job waits for a place that a program which died still has, and says so once', async () => {
  const server = await serverOf();
  const engine = await open(server);
  await expect.poll(() => server.openAdapters).toBe(0);
  fillUntilAsked(server, 2);
  const waits: string[] = [];
  const { metrics } = await trainOnce(engine, untrained, 'waits', [batch()], (reason) => waits.push(reason));
  expect(metrics).toHaveLength(1);
  expect(waits).toEqual([expect.stringContaining('a place for an adapter on the training server')]);
});

test('a start and a chat that wait for a place say so', async () => {
  const server = await serverOf();
  fillUntilAsked(server, 2);
  const waits: string[] = [];
  const engine = await open(server, { onWait: (reason: string) => waits.push(reason) });
  expect(waits).toHaveLength(1);
  await expect.poll(() => server.openAdapters).toBe(0);
  fillUntilAsked(server, 1);
  await sampleFrom(engine, untrained);
  expect(waits).toEqual(
    Array(2).fill(expect.stringContaining('a place for an adapter on the training server')),
  );
});

test.each([
  [2, 'pass --tinker-adapters 2 (`adapters`), or start SkyRL with max_lora_adapters 5'],
  [1, 'this service needs 4: start SkyRL with max_lora_adapters 5'],
])(
  'a server with %i places is refused at the start, with the number that would do',
  async (places, remedy) => {
    const server = await serverOf();
    server.places = places;
    await expect(open(server)).rejects.toMatchObject({
      code: 'bad_option',
      message: expect.stringContaining(remedy),
    });
    await expect.poll(() => server.openAdapters).toBe(0);
  },
);

test('a server with as many places as adapters trains three jobs and more', async () => {
  const server = await serverOf();
  server.places = 2;
  const engine = await open(server, { adapters: 2 });
  let { weights } = await trainOnce(engine, untrained, 'first');
  for (const name of ['second', 'third', 'fourth']) {
    ({ weights } = await trainOnce(engine, weights, name));
    expect((await sampleFrom(engine, weights)).tokens).toHaveLength(5);
  }
});

test('a job that is cancelled waits for no place any more', async () => {
  const server = await serverOf();
  const engine = await open(server);
  await expect.poll(() => server.openAdapters).toBe(0);
  server.others = server.places;
  const stop = new AbortController();
  const onWait = () => stop.abort(new Error('cancelled'));
  const cancelled = engine.train({
    ...{
      from: untrained,
      folder: join(folder, 'cancelled'),
      batches: [batch()],
      onStep: () => undefined,
      onWait,
    },
    signal: stop.signal,
  });
  await expect(cancelled).rejects.toThrow();
  expect(stop.signal.aborted).toBe(true);
});

/** The adapters of an engine that waits no longer than asked. */
async function adaptersOf(server: TinkerServer, options: { places: number; longestWaitMs: number }) {
  const api = new TinkerApi({ url: server.url });
  const waits: string[] = [];
  const adapters = new Adapters({
    ...{ api, serverModel: '/models/base', rank: 4, onWait: (reason) => waits.push(reason) },
    ...options,
  });
  onTestFinished(async () => {
    await adapters.end();
    await api.close();
  });
  return { api, adapters, waits };
}

test('a wait for a place ends with engine_full at its deadline', async () => {
  const server = await serverOf();
  server.others = server.places;
  const { adapters, waits } = await adaptersOf(server, { places: 2, longestWaitMs: 0 });
  await expect(adapters.open(null, { optimizer: false })).rejects.toMatchObject({ code: 'engine_full' });
  expect(waits.length).toBeLessThanOrEqual(1);
});

test('a request for a checkpoint while all adapters are used says so, and ends with engine_full', async () => {
  const server = await serverOf();
  const { adapters, waits } = await adaptersOf(server, { places: 2, longestWaitMs: 50 });
  const release = Promise.withResolvers<void>();
  const first = adapters.withWeights(null, () => release.promise);
  await expect(adapters.withWeights('another', async () => 1)).rejects.toMatchObject({
    code: 'engine_full',
    message: expect.stringContaining('--tinker-adapters'),
  });
  expect(waits).toEqual([expect.stringContaining('all 1 adapters for sampling are used')]);
  release.resolve();
  await first;
});

test('a job says that the server is away, and ends with engine_away at the deadline', async () => {
  const server = await serverOf();
  const { api, adapters } = await adaptersOf(server, { places: 2, longestWaitMs: 1000 });
  server.fault = ({ path }) => (path.endsWith('forward_backward') ? 'cut' : undefined);
  const waits: string[] = [];
  const job = {
    ...{ from: null, batches: [batch()], onStep: () => undefined, referenceOf: async () => null },
    onWait: (reason: string) => waits.push(reason),
  };
  const limits = { vocabularySize, contextLength: 64, reduction: 'mean' as const, longestAwayMs: 0 };
  await expect(train({ api, adapters, ...limits }, job)).rejects.toMatchObject({
    code: 'engine_away',
    message: expect.stringContaining('has been away for'),
  });
  expect(waits).toEqual([expect.stringContaining('the training server, which is away')]);
});

test('a result that never comes ends with engine_away', async () => {
  const server = await serverOf({ hostedKey: 'key' });
  const api = new TinkerApi({ url: server.url, apiKey: 'key', longestResultMs: -1 });
  onTestFinished(() => api.close());
  const { session_id } = await api.post('create_session', { tags: [] }, { repeat: 'never' });
  const body = { session_id, model_seq_id: 0, base_model: '/models/base', lora_config: { rank: 4, seed: 0 } };
  await expect(api.operation('create_model', body, { repeat: 'never' })).rejects.toMatchObject({
    code: 'engine_away',
  });
});

test('a session for sampling that failed is opened anew for the next call', async () => {
  const server = await serverOf();
  const engine = await open(server);
  const { weights } = await trainOnce(engine, untrained, 'one');
  let left = 1;
  server.fault = ({ path }, when) =>
    path.endsWith('save_weights_for_sampler') && when === 'after' && left-- > 0 ? 'cut' : undefined;
  await expect(sampleFrom(engine, weights)).rejects.toMatchObject({ code: 'engine_away' });
  expect((await sampleFrom(engine, weights)).tokens).toHaveLength(5);
});

test('a caller leaves while the weights of its checkpoint are loaded', async () => {
  const server = await serverOf();
  const engine = await open(server);
  let silent = 0;
  server.fault = ({ path }) => (path.endsWith('create_model') && ++silent ? 'silent' : undefined);
  const stop = new AbortController();
  const left = sampleFrom(engine, untrained, { signal: stop.signal });
  await expect.poll(() => silent).toBe(1);
  stop.abort(new Error('left'));
  await expect(left).rejects.toThrow('left');
});

test('a checkpoint without its file is dropped, and the base model keeps its adapter', async () => {
  const server = await serverOf();
  const engine = await open(server);
  const reply = await sampleFrom(engine, untrained);
  const created = () => server.received.filter(({ path }) => path.endsWith('create_model')).length;
  const before = created();
  await engine.drop({ ...untrained, folder: '/nowhere' });
  expect(await sampleFrom(engine, untrained)).toEqual(reply);
  expect(created()).toBe(before);
});
