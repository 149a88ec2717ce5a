import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createClient } from 'martingale/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { startService } from '../../src/service/index.ts';
import { group, type Json, start, trajectory } from '../service/harness.ts';
import { temporaryFolder } from '../support/files.ts';
import { door, ScriptedEngine } from '../support/scripted-engine.ts';

const groups = (token: number) => [group(trajectory(1, [token, 258]), trajectory(0, [token + 1, 258]))];

const jobOf = (model: { id: string }, token = 65) => ({
  model_id: model.id,
  trajectory_groups: groups(token),
});

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

describe('two models', () => {
  test('train and are sampled at the same time, each from its own checkpoints', {
    tags: ['long'],
  }, async () => {
    const engine = await createEmbeddedEngine({ threads: 1 });
    onTestFinished(() => engine.close());
    const service = await startService({ engine, dataFolder: await temporaryFolder() });
    onTestFinished(() => service.close());
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    onTestFinished(() => client.close());
    const steps = 3;
    const names = ['one', 'two'];
    const run = async (name: string) => {
      const model = await client.models.create({ project: 'pair', name, base_model: 'martingale-tiny' });
      for (let step = 0; step < steps; step++) {
        const sampled = await Promise.all(
          Array.from({ length: 4 }, (_, seed) =>
            client.chat.completions.create({
              ...{ model: `local/pair/${name}`, messages: [{ role: 'user', content: `${name} ${step}` }] },
              ...{ seed, max_completion_tokens: 8, logprobs: true, return_token_ids: true },
            }),
          ),
        );
        expect(new Set(sampled.map((answer) => answer.model))).toEqual(
          new Set([`local/pair/${name}:step${step}`]),
        );
        const trajectories = sampled.map(({ choices }, index) => ({
          messages_and_choices: [
            { role: 'user' as const, content: `${name} ${step}` },
            ...choices.slice(0, 1),
          ],
          reward: index % 2,
        }));
        const { id } = await client.trainingJobs.create({
          model_id: model.id,
          trajectory_groups: [{ trajectories }],
        });
        const types: string[] = [];
        for await (const event of client.trainingJobs.follow(id)) types.push(event.type);
        expect(types.at(-1)).toBe('training_ended');
      }
      const kept: number[] = [];
      for await (const checkpoint of client.models.checkpoints.list(model.id)) kept.push(checkpoint.step);
      expect(kept).toEqual([0, 1, 2, 3]);
    };
    await Promise.all(names.map(run));
  });
});

describe('a deleted model', () => {
  test('finishes the replies in flight, answers new requests with 404, and leaves nothing behind', async () => {
    const engine = new ScriptedEngine();
    const { call, chat, createModel, follow, dataFolder } = await start({ engine });
    const model = await createModel();
    const job = await call('POST', '/v1/preview/training-jobs', jobOf(model));
    await follow(job.body.id);
    const gate = door();
    engine.hold = gate.wait;
    const asked = Array.from({ length: 20 }, () => chat({ model: 'local/desk/agent' }));
    await expect.poll(() => engine.requests.length).toBe(20);
    expect((await call('DELETE', `/v1/preview/models/${model.id}`)).status).toBe(200);
    const after = await Promise.all(
      ['local/desk/agent', 'local/desk/agent:step1'].map((name) => chat({ model: name })),
    );
    expect(after.map(({ status, body }) => [status, body.error.code])).toEqual([
      [404, 'model_not_found'],
      [404, 'model_not_found'],
    ]);
    gate.open();
    for (const { status } of await Promise.all(asked)) expect(status).toBe(200);
    expect(engine.dropped).toHaveLength(1);
    expect(await exists(join(dataFolder, 'models', model.id))).toBe(false);
    expect((await call('GET', `/v1/preview/training-jobs/${job.body.id}`)).status).toBe(404);
  });

  test('has its jobs cancelled, tells their followers, and leaves nothing behind', async () => {
    const engine = new ScriptedEngine();
    const gate = door();
    engine.hold = (place) => (place === 'train' ? gate.wait() : Promise.resolve());
    onTestFinished(gate.open);
    const { call, createModel, follow, dataFolder } = await start({ engine });
    const [model, other] = [await createModel(), await createModel({ name: 'other' })];
    const ids: string[] = [];
    for (const one of [model, model, other, model])
      ids.push((await call('POST', '/v1/preview/training-jobs', jobOf(one))).body.id);
    await gate.reached;
    const followed = ids.map((id) => follow(id));
    const deleted = call('DELETE', `/v1/preview/models/${model.id}`);
    expect((await deleted).status).toBe(200);
    engine.hold = null;
    gate.open();
    const last = (await Promise.all(followed)).map((events) => events.at(-1)?.type);
    expect(last[2]).toBe('training_ended');
    for (const type of [last[0], last[1], last[3]]) expect([undefined, 'training_failed']).toContain(type);
    expect(await exists(join(dataFolder, 'models', model.id))).toBe(false);
    expect(await readdir(join(dataFolder, 'models'))).toEqual([other.id]);
    expect(engine.trainings).toBe(1);
  });
});

async function jobsInTurn(each: number): Promise<void> {
  const engine = new ScriptedEngine();
  const gate = door();
  engine.hold = (place) => (place === 'train' ? gate.wait() : Promise.resolve());
  onTestFinished(gate.open);
  const { call, createModel, follow } = await start({ engine });
  const models = [await createModel(), await createModel({ name: 'other' })];
  const ids: string[] = [];
  for (let index = 0; index < 2 * each; index++) {
    const { status, body } = await call(
      ...(['POST', '/v1/preview/training-jobs', jobOf(models[Math.floor(index / each)], index)] as const),
    );
    expect(status).toBe(200);
    ids.push(body.id);
  }
  const cancelled = [each - 3, each, each + 1, 2 * each - 1];
  for (const index of cancelled)
    expect((await call('POST', `/v1/preview/training-jobs/${ids[index]}/cancel`)).body.status).toBe(
      'cancelled',
    );
  gate.open();
  const events = await Promise.all(ids.map((id) => follow(id)));
  for (const [index, told] of events.entries())
    expect(told.at(-1)?.type).toBe(cancelled.includes(index) ? 'training_failed' : 'training_ended');
  const ran = [...ids.keys()].filter((index) => !cancelled.includes(index));
  const [first = [], second = []] = [0, 1].map((number) =>
    ran.filter((index) => Math.floor(index / each) === number),
  );
  const inTurn = first.flatMap((index, place) => [index, ...second.slice(place, place + 1)]);
  expect(engine.trained.map(({ datums }) => datums[0]?.tokens.at(-2))).toEqual(inTurn);
  for (const [number, model] of models.entries()) {
    const { body } = await call('GET', `/v1/preview/models/${model.id}/checkpoints?limit=1&order=desc`);
    expect(body.data[0].step).toBe([first, second][number]?.length);
  }
}

test('20 jobs of two models run in turn, those of each model in order, without the cancelled ones', () =>
  jobsInTurn(10));

test(
  '200 jobs of two models run in turn, those of each model in order, without the cancelled ones',
  {
    tags: ['long'],
  },
  () => jobsInTurn(100),
);

test('a model with a thousand checkpoints is listed, resolved and pruned', async () => {
  const dataFolder = await temporaryFolder();
  const first = await start({ dataFolder });
  const model = await first.createModel();
  const job = await first.call('POST', '/v1/preview/training-jobs', jobOf(model));
  await first.follow(job.body.id);
  await first.service.close();
  const database = new DatabaseSync(await databaseIn(dataFolder));
  database.exec('BEGIN');
  const insert = database.prepare(
    `INSERT INTO checkpoints (id, model_id, step, folder, metrics, created_at)
     SELECT ?, model_id, ?, folder, metrics, created_at FROM checkpoints WHERE step = 1`,
  );
  for (let step = 2; step < 1000; step++) insert.run(`checkpoint-${step}`, step);
  database.exec('UPDATE models SET last_step = 999; COMMIT');
  database.close();

  const { call, chat } = await start({ dataFolder });
  const path = `/v1/preview/models/${model.id}/checkpoints`;
  const steps: number[] = [];
  for (let after = ''; ; ) {
    const { body }: { body: Json } = await call('GET', `${path}?limit=100${after}`);
    steps.push(...body.data.map((checkpoint: Json) => checkpoint.step));
    if (!body.has_more) break;
    after = `&after=${body.last_id}`;
  }
  expect(steps).toEqual(Array.from({ length: 1000 }, (_, index) => index));
  expect((await chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step999');
  for (const step of [1, 500, 998])
    expect((await chat({ model: `local/desk/agent:step${step}` })).body.model).toBe(
      `local/desk/agent:step${step}`,
    );
  const { body } = await call('DELETE', path, {
    steps: Array.from({ length: 900 }, (_, index) => index + 1),
  });
  expect(body).toEqual({ deleted_count: 900, not_found_steps: [] });
  expect((await chat({ model: 'local/desk/agent:step500' })).status).toBe(404);
  expect((await chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step999');
});

test('a hundred models answer one after another and at once, each with its own weights', async () => {
  const { call, chat, createModel } = await start();
  const names = Array.from({ length: 100 }, (_, index) => `model-${index}`);
  for (const name of names) await createModel({ name });
  const ask = async (name: string) => (await chat({ model: `local/desk/${name}` })).body.model;
  const expected = names.map((name) => `local/desk/${name}:step0`);
  for (const [index, name] of names.entries()) expect(await ask(name)).toBe(expected[index]);
  expect(await Promise.all(names.map(ask))).toEqual(expected);
  const listed = (await call('GET', '/v1/models')).body.data.map((model: Json) => model.id);
  expect(listed).toEqual(expect.arrayContaining(names.map((name) => `local/desk/${name}`)));
});

async function databaseIn(folder: string): Promise<string> {
  const found = (await readdir(folder)).find((name) => /^(?!keys).*\.(db|sqlite)$/.test(name));
  if (!found) throw new Error(`no database among ${await readdir(folder)}`);
  return join(folder, found);
}
