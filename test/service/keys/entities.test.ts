import { createHash, randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { KeyStore, startService } from '../../../src/service/index.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';
import { group, type Json, start, trajectory } from '../harness.ts';

const base = 'scripted-tiny';

const line = JSON.stringify({
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'yes' },
  ],
});

/** A service with a key for each of two teams, and its own key without an entity. */
async function withTeams() {
  const engine = new ScriptedEngine();
  const running = await start({ engine });
  const keys = await KeyStore.open(running.dataFolder);
  onTestFinished(() => keys.close());
  const as = (entity: string | null) => {
    const { key } = keys.create('', { entity });
    const headers = { authorization: `Bearer ${key}` };
    const ask = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}) => {
      const response = await running.raw(method, path, body, { ...headers, ...more });
      const text = await response.text();
      return { status: response.status, text, headers: Object.fromEntries(response.headers) };
    };
    const make = async (method: string, path: string, body?: unknown, more?: Record<string, string>) => {
      const { status, text } = await ask(method, path, body, more);
      if (status !== 200) throw new Error(`${method} ${path}: ${status} ${text}`);
      const created: Json = JSON.parse(text);
      return created;
    };
    const model = (fields: object = {}) =>
      make('POST', '/v1/preview/models', { project: 'desk', name: 'agent', base_model: base, ...fields });
    return { ask, make, model };
  };
  return { ...running, engine, keys, as };
}

/** The objects of one team. */
interface Things {
  model: string;
  job: string;
  name: string;
  sha256: string;
}

type Request = [method: string, path: string, body?: unknown, headers?: Record<string, string>];

/** Every request that names an object of an entity, except those to the team's own model. */
const requestsFor = ({ model, job, name, sha256 }: Things, own: string): Request[] => {
  const models = '/v1/preview/models';
  const jobs = '/v1/preview/training-jobs';
  const messages = [{ role: 'user', content: 'hi' }];
  return [
    ['GET', `${models}/${model}`],
    ['HEAD', `${models}/${model}`],
    ['DELETE', `${models}/${model}`],
    ['GET', `${models}?after=${model}`],
    ['GET', `${models}/${model}/checkpoints`],
    ['DELETE', `${models}/${model}/checkpoints`, { steps: [0] }],
    ['GET', `${models}/${model}/checkpoints/1/download`],
    ['GET', `${models}/${model}/checkpoints/7/download`],
    ['POST', `${models}/${model}/fork`],
    ['POST', `${models}/${model}/fork`, { step: 7 }],
    ['POST', `${models}/${model}/fork`, { entity: 'team-b', name: 'stolen', step: 1 }],
    ['POST', `${models}/${model}/fork`, {}, { 'idempotency-key': randomUUID() }],
    ['POST', `${models}/${model}/log`, { split: 'train', trajectory_groups: [group(trajectory(1, [65]))] }],
    ['POST', jobs, { model_id: model, trajectory_groups: [group(trajectory(1, [65]), trajectory(0, [66]))] }],
    ['POST', jobs, { model_id: model, trajectory_groups: [] }],
    [
      'POST',
      '/v1/preview/sft-training-jobs',
      { model_id: model, training_data_url: `upload:sha256-${sha256}` },
    ],
    [
      'POST',
      '/v1/preview/sft-training-jobs',
      { model_id: own, training_data_url: `upload:sha256-${sha256}` },
    ],
    ['GET', `${jobs}/${job}`],
    ['GET', `${jobs}/${job}/events`],
    ['GET', `${jobs}/${job}/events`, undefined, { accept: 'text/event-stream' }],
    ['POST', `${jobs}/${job}/cancel`],
    ...[name, `${name}:step0`, `${name}:step1`, `${name}:step7`, `any:///${name}`].flatMap(
      (named): Request[] => [
        ['POST', '/v1/chat/completions', { model: named, messages }],
        ['POST', '/v1/chat/completions', { model: named, messages, stream: true }],
      ],
    ),
  ];
};

describe('a key of an entity', () => {
  test('sees the objects of another entity exactly as if they did not exist', async () => {
    const { as } = await withTeams();
    const [a, b] = [as('team-a'), as('team-b')];
    const model = await a.model();
    const upload = await a.make('POST', '/v1/preview/uploads', line);
    const trained = await a.make('POST', '/v1/preview/training-jobs', {
      model_id: model.id,
      trajectory_groups: [group(trajectory(1, [65]), trajectory(0, [66]))],
    });
    const events = `/v1/preview/training-jobs/${trained.id}/events`;
    await a.ask('GET', events, undefined, { accept: 'text/event-stream' });
    const own = (await b.model()).id;
    const there: Things = {
      model: model.id,
      job: trained.id,
      name: 'team-a/desk/agent',
      sha256: upload.sha256,
    };
    const nowhere: Things = {
      model: randomUUID(),
      job: randomUUID(),
      name: 'team-a/desk/ghost',
      sha256: createHash('sha256').update('nothing').digest('hex'),
    };
    const before = await a.make('GET', `/v1/preview/models/${model.id}/checkpoints`);
    expect(before.data).toHaveLength(2);

    const toNowhere = requestsFor(nowhere, own);
    for (const [index, request] of requestsFor(there, own).entries()) {
      const answer = await b.ask(...request);
      const ghost = await b.ask(...(toNowhere[index] ?? request));
      expect(ghost.status, String(request)).toBeGreaterThanOrEqual(400);
      expect(comparable(answer, there), JSON.stringify(request)).toEqual(comparable(ghost, nowhere));
    }

    expect(await a.make('GET', `/v1/preview/models/${model.id}/checkpoints`)).toEqual(before);
    expect(await a.make('GET', `/v1/preview/training-jobs/${trained.id}`)).toMatchObject({
      status: 'succeeded',
    });
    expect((await b.make('GET', '/v1/preview/models')).data).toMatchObject([{ id: own }]);
  });

  test('lists only its own models and the base models, in pages; a key without an entity lists all', async () => {
    const { as } = await withTeams();
    const [a, b, all] = [as('team-a'), as('team-b'), as(null)];
    for (const name of ['one', 'two', 'three']) {
      await a.model({ name });
      await b.model({ name });
    }
    const first = await b.make('GET', '/v1/preview/models?limit=2&order=asc');
    expect(first).toMatchObject({ has_more: true, data: [{ entity: 'team-b' }, { entity: 'team-b' }] });
    const rest = await b.make('GET', `/v1/preview/models?limit=2&order=asc&after=${first.last_id}`);
    expect(rest).toMatchObject({ has_more: false, data: [{ entity: 'team-b', name: 'three' }] });
    expect((await all.make('GET', '/v1/preview/models')).data).toHaveLength(6);
    const names = async (key: typeof a) =>
      (await key.make('GET', '/v1/models')).data.map(({ id }: Json) => id);
    expect(await names(a)).toEqual([base, 'team-a/desk/one', 'team-a/desk/two', 'team-a/desk/three']);
    expect(await names(all)).toHaveLength(7);
    const page = (key: typeof a) =>
      key.make('POST', '/v1/chat/completions', {
        model: base,
        messages: [{ role: 'user', content: 'hi' }],
      });
    expect([await page(a), await page(all)]).toMatchObject([{ model: base }, { model: base }]);
  });

  test('creates models only for its own entity; the same name in two entities is two models', async () => {
    const { as } = await withTeams();
    const [a, b, all] = [as('team-a'), as('team-b'), as(null)];
    const [ofA, ofB] = [await a.model(), await b.model({ return_existing: true })];
    expect([ofA, ofB]).toMatchObject([{ entity: 'team-a' }, { entity: 'team-b' }]);
    expect(ofA.id).not.toBe(ofB.id);
    const fork = `/v1/preview/models/${ofB.id}/fork`;
    for (const [path, body] of [
      ['/v1/preview/models', { project: 'desk', name: 'agent', base_model: base, return_existing: true }],
      [fork, { name: 'other' }],
    ] as const) {
      const refused = await b.ask('POST', path, { ...body, entity: 'team-a' });
      expect(refused.status).toBe(422);
      expect(JSON.parse(refused.text).detail).toMatchObject([{ loc: ['body', 'entity'], input: 'team-a' }]);
      const free = await b.ask('POST', path, { ...body, name: 'free', entity: 'team-a' });
      expect(free.text).toBe(refused.text);
    }
    expect(await b.make('POST', fork, { name: 'other' })).toMatchObject({ entity: 'team-b' });
    expect(await all.model({ entity: 'team-b', return_existing: true })).toMatchObject({ id: ofB.id });
    expect(await all.make('POST', fork, { entity: 'team-a', name: 'gift' })).toMatchObject({
      entity: 'team-a',
    });
    expect(await all.model()).toMatchObject({ entity: 'local' });
  });

  test('has a valid model name, as has the entity of keys without one', async () => {
    const { dataFolder, keys } = await withTeams();
    for (const entity of ['', 'team/a', '..', 'a b', '-a', 'a\n', 'x'.repeat(129)]) {
      expect(() => keys.create('', { entity })).toThrow(/not a valid entity name/);
      await expect(
        startService({ engine: new ScriptedEngine(), dataFolder, defaultEntity: entity }),
      ).rejects.toMatchObject({ code: 'bad_option' });
    }
  });

  test('has its own Idempotency-Keys and uploads', async () => {
    const { as } = await withTeams();
    const [a, b, all] = [as('team-a'), as('team-b'), as(null)];
    const key = { 'idempotency-key': 'the same' };
    const body = { project: 'desk', base_model: base };
    const created = await Promise.all(
      [a, b, all].map((one) => one.make('POST', '/v1/preview/models', body, key)),
    );
    const again = await Promise.all(
      [a, b, all].map((one) => one.make('POST', '/v1/preview/models', body, key)),
    );
    expect(again).toEqual(created);
    expect(new Set(created.map(({ id }) => id)).size).toBe(3);
    const other = await b.ask('POST', '/v1/preview/models', { ...body, name: 'other' }, key);
    expect(other).toMatchObject({ status: 409, text: expect.stringContaining('\\"the same\\"') });

    const { url } = await a.make('POST', '/v1/preview/uploads', line);
    const train = async (one: typeof a, model: string) =>
      (await one.ask('POST', '/v1/preview/sft-training-jobs', { model_id: model, training_data_url: url }))
        .status;
    expect(await train(b, created[1].id)).toBe(422);
    expect(await train(a, created[0].id)).toBe(200);
    expect(await train(all, created[2].id)).toBe(200);
    expect(await b.make('POST', '/v1/preview/uploads', line)).toMatchObject({ url });
    expect(await train(b, created[1].id)).toBe(200);
  });

  test('shares no cached prefix with another entity or another salt', async () => {
    const { as, engine } = await withTeams();
    const [a, b, all] = [as('team-a'), as('team-b'), as(null)];
    const ask = (one: typeof a, salt?: string) =>
      one.make('POST', '/v1/chat/completions', {
        ...{ model: base, messages: [{ role: 'user', content: 'hi' }] },
        ...(salt === undefined ? {} : { cache_salt: salt }),
      });
    for (const one of [a, b, all])
      for (const salt of [undefined, 'x', 'team-a', '["team-a",null]']) await ask(one, salt);
    const salts = engine.requests.map(({ cacheSalt }) => cacheSalt);
    expect(salts).toHaveLength(12);
    expect(new Set(salts).size).toBe(12);
    await ask(a, 'x');
    expect(engine.requests.at(-1)?.cacheSalt).toBe(salts[1]);
  });
});

/** An answer without fields that differ between requests, and with equal names. */
function comparable(
  { status, text, headers }: { status: number; text: string; headers: object },
  things: Things,
) {
  const { 'x-request-id': _, date: __, ...rest } = Object.fromEntries(Object.entries(headers));
  let plain = text;
  for (const [kind, name] of Object.entries(things)) plain = plain.replaceAll(name, `<${kind}>`);
  return { status, text: plain, headers: { ...rest, 'content-length': null } };
}
