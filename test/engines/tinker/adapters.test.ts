import { expect, test } from 'vitest';
import { sharedFolder } from '../../support/files.ts';
import { sampleFrom, serverOf, tinkerEngines, untrained } from './support.ts';

const { open, trainOnce } = tinkerEngines(sharedFolder());

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

test('a job waits for a place that a program which died still has', async () => {
  const server = await serverOf();
  const engine = await open(server);
  await expect.poll(() => server.openAdapters).toBe(0);
  server.places = 0;
  let refused = 0;
  server.fault = ({ path }, when) => {
    if (path.endsWith('create_model') && when === 'after' && ++refused === 2) server.places = 1;
    return undefined;
  };
  const { metrics } = await trainOnce(engine, untrained, 'waits');
  expect(metrics).toHaveLength(1);
  expect(refused).toBe(3);
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
