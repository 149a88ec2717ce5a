import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { baseModel } from '../support/scripted-engine.ts';
import { type Json, start } from './harness.ts';
import { open } from './opened.ts';

/** A data folder with many models. */
async function withModels(count: number): Promise<string> {
  const dataFolder = await temporaryFolder();
  await (await open({ dataFolder })).close();
  const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'));
  database.exec(`
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${count})
    INSERT INTO models (id, entity, project, name, base_model, created_at, last_step)
    SELECT 'id-' || i, iif(i % 10 = 0, 'tens', 'local'), 'p', 'm' || i, '${baseModel.id}', '2026-01-02T03:04:05.000Z', 0
    FROM n;`);
  database.close();
  return dataFolder;
}

test('the list of inference models is complete and in order, even if models are deleted meanwhile', async () => {
  const { service, call } = await open({ dataFolder: await withModels(250) });
  const { store } = service;
  const every = store.everyModel.bind(store);
  store.everyModel = async function* (entity) {
    for await (const models of every(entity)) {
      yield models;
      // The last that was read, and the first that will be.
      if (models.at(-1)?.id === 'id-99') for (const id of ['id-99', 'id-100']) await store.deleteModel(id);
    }
  };
  const { body } = await call('GET', '/v1/models');
  expect(body.object).toBe('list');
  const names = body.data.slice(1).map(({ id }: Json) => Number(id.split('/m')[1]));
  expect(names).toEqual(Array.from({ length: 250 }, (_, index) => index).filter((index) => index !== 100));
  expect(body.data[1]).toEqual({
    ...{ id: 'tens/p/m0', object: 'model', owned_by: 'tens', root: baseModel.id },
    created: Date.parse('2026-01-02T03:04:05Z') / 1000,
  });
  const own: string[] = [];
  for await (const models of every('tens')) own.push(...models.map(({ name }) => name));
  expect(own).toEqual(Array.from({ length: 25 }, (_, index) => `m${index * 10}`).filter((n) => n !== 'm100'));
});

test('a model is found by its name in chat completions, encoded or not', async () => {
  const { call, createModel } = await start();
  const model = await createModel();
  const [, listed] = (await call('GET', '/v1/models')).body.data;
  const encoded = encodeURIComponent('local/desk/agent');
  for (const name of [
    'local/desk/agent',
    encoded,
    'local%2fdesk/agent',
    `wandb-artifact:///local/desk/agent`,
  ])
    expect([name, (await call('GET', `/v1/models/${name}`)).body]).toEqual([name, listed]);
  const first = { ...listed, id: 'local/desk/agent:step0', created: expect.any(Number) };
  for (const name of ['local/desk/agent:step0', `${encoded}%3Astep0`, `${encoded}:step0`])
    expect([name, (await call('GET', `/v1/models/${name}`)).body]).toEqual([name, first]);
  const base = await call('GET', `/v1/models/${baseModel.id}`);
  expect(base.body).toEqual((await call('GET', '/v1/models')).body.data[0]);
  expect(model.name).toBe('agent');
});

test('an unknown model is a 404 in the form that OpenAI clients read', async () => {
  const { service, call, createModel } = await start();
  await createModel();
  const names = ['nobody', 'local/desk/nobody', 'local/desk/agent:step9', 'local/desk', 'a%zz', '%2F', 'a/'];
  for (const name of names) {
    const { status, body } = await call('GET', `/v1/models/${name}`);
    expect([name, status, body.error?.code]).toEqual([name, 404, 'model_not_found']);
    expect(body.detail).toContain('GET /v1/models lists');
    expect(body.error.message).toBe(body.detail);
  }
  expect((await call('GET', '/v1/models/local/desk/agent:step9')).body.detail).toContain(
    'no checkpoint of step 9',
  );
  expect((await call('POST', '/v1/models/local/desk/agent', {})).headers.get('allow')).toBe(
    'GET, HEAD, OPTIONS',
  );
  expect((await fetch(`${service.url}/v1/models/local/desk/agent`)).status).toBe(401);
});

test('the trainable base models are listed by name', async () => {
  const { call } = await open({ dataFolder: await temporaryFolder() });
  expect(await call('GET', '/v1/preview/base-models')).toMatchObject({ status: 200, body: [baseModel.id] });
});

test('a list of many models leaves ticks for other work', async () => {
  const { service, call } = await open({ dataFolder: await withModels(20_000) });
  const { store } = service;
  let turns = 0;
  let counting: NodeJS.Immediate | undefined;
  const turn = () => {
    turns++;
    counting = setImmediate(turn);
  };
  const every = store.everyModel.bind(store);
  store.everyModel = async function* (entity) {
    counting = setImmediate(turn);
    yield* every(entity);
    if (counting) clearImmediate(counting);
  };
  expect((await call('GET', '/v1/models')).body.data).toHaveLength(20_001);
  expect(turns).toBeGreaterThan(2);
});
