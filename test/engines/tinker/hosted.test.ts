import { expect, test } from 'vitest';
import { TinkerApi } from '../../../src/engines/tinker/tinker-api.ts';
import { plainSampling } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { batch, sampleFrom, serverOf, tinkerEngines, untrained, vocabularySize } from './support.ts';
import { TinkerServer } from './tinker-server.ts';

const { open, trainOnce } = tinkerEngines(sharedFolder());
const hostedKey = 'tml-key';
const hosted = () => TinkerServer.start({ vocabularySize, hostedKey });

test('a server that wants keys, numbered requests and patience is trained and sampled', async () => {
  const server = await hosted();
  const engine = await open(server, { apiKey: hostedKey });
  const first = await trainOnce(engine, untrained, 'first');
  const second = await trainOnce(engine, first.weights, 'second', [batch(), batch()]);
  expect(server.logprob(second.path, 7, 8)).not.toBe(server.logprob(first.path, 7, 8));
  expect((await sampleFrom(engine, second.weights)).tokens).toHaveLength(5);
  await expect(open(server, { apiKey: 'other' })).rejects.toMatchObject({
    message: expect.stringContaining('TINKER_API_KEY'),
  });
});

test('an error that comes as a result is the error of what was asked for', async () => {
  const server = await hosted();
  const engine = await open(server, { apiKey: hostedKey });
  const first = await trainOnce(engine, untrained, 'first');
  server.checkpoints.clear();
  await expect(trainOnce(engine, first.weights, 'second')).rejects.toMatchObject({
    code: 'checkpoint_missing',
    message: expect.stringContaining('Checkpoint not found'),
  });
});

test('a step of more than 1024 sequences is several passes with the same gradient', async () => {
  const server = await hosted();
  const engine = await open(server, { apiKey: hostedKey });
  const span = { start: 1, length: 1, logprobs: [-6.6], sampling: plainSampling, constraint: null };
  const datums = Array.from({ length: 1500 }, (_, index) => ({
    tokens: [6, 11 + (index % 3)],
    spans: [{ ...span, advantage: index % 2, weight: 1 / 1500 }],
  }));
  const passes = () => server.received.filter(({ path }) => path.endsWith('forward_backward')).length;
  const before = passes();
  const { metrics } = await trainOnce(engine, untrained, 'large', [batch({ datums })]);
  expect(passes() - before).toBe(4);
  expect(metrics[0]?.num_decisions).toBe(1500);
  const { metrics: small } = await trainOnce(engine, untrained, 'small', [
    batch({
      datums: datums
        .slice(0, 6)
        .map(({ tokens, spans }) => ({ tokens, spans: spans.map((one) => ({ ...one, weight: 1 / 6 })) })),
    }),
  ]);
  expect(metrics[0]?.grad_norm).toBeCloseTo(small[0]?.grad_norm as number, 6);
});

test('a result that the server has lost is sampled again; a full server is asked again', async () => {
  const server = await serverOf();
  const engine = await open(server);
  const reply = await sampleFrom(engine, untrained);
  for (const [route, status] of [
    ['retrieve_future', 410],
    ['asample', 429],
  ] as const) {
    let left = 1;
    server.fault = ({ path }) => (path.endsWith(route) && left-- > 0 ? status : undefined);
    expect(await sampleFrom(engine, untrained)).toEqual(reply);
    expect(left).toBeLessThanOrEqual(0);
  }
});

test('a training request that found no room is sent again, once', async () => {
  const server = await serverOf();
  const engine = await open(server);
  const expected = await trainOnce(engine, untrained, 'expected');
  let left = 1;
  server.fault = ({ path }, when) =>
    when === 'before' && path.endsWith('forward_backward') && left-- > 0 ? 429 : undefined;
  const before = server.received.filter(({ path }) => path.endsWith('create_model')).length;
  const { path } = await trainOnce(engine, untrained, 'busy');
  expect(server.logprob(path, 7, 8)).toBe(server.logprob(expected.path, 7, 8));
  expect(server.received.filter(({ path }) => path.endsWith('create_model')).length).toBe(before + 1);
});

test('an operation may take longer than a request for its result may wait', async () => {
  const server = await serverOf();
  const api = new TinkerApi({ url: server.url, pollMs: 20 });
  let left = 2;
  server.fault = ({ path }) => (path.endsWith('retrieve_future') && left-- > 0 ? 'silent' : undefined);
  const { session_id: session } = await api.post('create_session', {}, { repeat: 'never' });
  const begun = await api.post('create_model', { session_id: session }, { repeat: 'never' });
  expect(await api.result(begun)).toEqual({ model_id: begun.model_id });
  expect(left).toBeLessThan(0);
  // Between them it was asked whether it is there at all.
  expect(server.received.filter(({ path }) => path.endsWith('get_server_capabilities')).length).toBe(2);
  await api.close();
});
