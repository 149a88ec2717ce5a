import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { special, tokensOf } from '../support/scripted-engine.ts';
import { group, type Json, start, trajectory } from './harness.ts';

const sampled = tokensOf('yes', special.end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const unknown = '00000000-0000-4000-8000-000000000000';

/** A service with a model that was trained `steps` times. */
async function trained(steps: number) {
  const running = await start();
  const { call, follow, createModel, dataFolder } = running;
  const train = async (modelId: string) => {
    const job = await call('POST', '/v1/preview/training-jobs', {
      model_id: modelId,
      trajectory_groups: groups,
    });
    expect((await follow(job.body.id)).at(-1)?.type).toBe('training_ended');
  };
  const model = await createModel();
  for (let step = 0; step < steps; step++) await train(model.id);
  const folderOf = (modelId: string, step: number) =>
    join(dataFolder, 'models', modelId, 'checkpoints', `step-${step}`);
  const fork = (body: unknown, headers: Record<string, string> = {}) =>
    call('POST', `/v1/preview/models/${model.id}/fork`, body, headers);
  return { ...running, train, model, folderOf, fork };
}

describe('forks', () => {
  test('a fork has the whole checkpoint, even after the other model is deleted, and training continues from it', async () => {
    const { call, chat, train, model, folderOf, fork, engine } = await trained(2);
    // A possible layout of a checkpoint: with the optimizer's state, and folders.
    mkdirSync(join(folderOf(model.id, 1), 'deep'));
    writeFileSync(join(folderOf(model.id, 1), 'deep', 'optimizer'), 'moments');
    const forked = await fork({ step: 1, name: 'second' });
    expect(forked).toMatchObject({
      status: 200,
      body: {
        ...{ entity: 'local', project: 'desk', name: 'second', base_model: 'scripted-tiny', run_id: null },
        forked_from: { model_id: model.id, step: 1 },
      },
    });
    const { id } = forked.body;
    expect(id).not.toBe(model.id);
    expect((await call('DELETE', `/v1/preview/models/${model.id}`)).status).toBe(200);
    expect(readFileSync(join(folderOf(id, 0), 'weights'), 'utf8')).toBe('base + 1');
    expect(readFileSync(join(folderOf(id, 0), 'deep', 'optimizer'), 'utf8')).toBe('moments');
    expect(readdirSync(join(folderOf(id, 0), '..'))).toEqual(['step-0']);
    expect((await call('GET', `/v1/preview/models/${id}`)).body).toEqual(forked.body);
    expect((await chat({ model: 'local/desk/second' })).body.model).toBe('local/desk/second:step0');
    expect(engine.requests.at(-1)?.weights.folder).toBe(folderOf(id, 0));
    await train(id);
    expect(engine.trained.at(-1)?.from.folder).toBe(folderOf(id, 0));
    const { data } = (await call('GET', `/v1/preview/models/${id}/checkpoints`)).body;
    expect(data.map(({ step }: Json) => step)).toEqual([0, 1]);
    expect(data[0].metrics).toMatchObject({ loss: 1 });
  });

  test('the newest checkpoint is forked by default, and the body may be omitted', async () => {
    const { fork, model, raw } = await trained(2);
    expect((await fork({ step: null })).body.forked_from).toEqual({ model_id: model.id, step: 2 });
    const response = await raw('POST', `/v1/preview/models/${model.id}/fork`);
    const body: Json = await response.json();
    expect(body.forked_from).toEqual({ model_id: model.id, step: 2 });
    expect(body.name).toMatch(/^model-[0-9a-f]{8}$/);
  });

  test('a fork of the base model has its weights, and a fork can be forked', async () => {
    const { fork, call, chat, engine, model } = await trained(0);
    const first = await fork({ name: 'a', entity: 'shop', project: 'door' });
    expect(first.body).toMatchObject({
      entity: 'shop',
      project: 'door',
      forked_from: { model_id: model.id, step: 0 },
    });
    await chat({ model: 'shop/door/a' });
    expect(engine.requests.at(-1)?.weights).toEqual({ baseModel: 'scripted-tiny', folder: null });
    const second = await call('POST', `/v1/preview/models/${first.body.id}/fork`, { name: 'b' });
    expect(second.body).toMatchObject({ entity: 'shop', forked_from: { model_id: first.body.id, step: 0 } });
    expect((await call('GET', '/v1/preview/models')).body.data).toHaveLength(3);
  });

  test('a missing model or step is a 404, and an invalid field a 422 with its name', async () => {
    const { fork, call, model } = await trained(1);
    expect(await fork({ step: 7 })).toMatchObject({
      status: 404,
      body: { detail: expect.stringContaining('step 7') },
    });
    expect((await call('POST', `/v1/preview/models/${unknown}/fork`, {})).status).toBe(404);
    for (const [body, loc] of [
      [{ step: -1 }, ['body', 'step']],
      [{ name: 'a/b' }, ['body', 'name']],
      [{ base_model: 'scripted-tiny' }, ['body', 'base_model']],
    ] as const)
      expect(await fork(body)).toMatchObject({ status: 422, body: { detail: [{ loc }] } });
    expect((await call('GET', '/v1/preview/models')).body.data).toMatchObject([{ id: model.id }]);
  });

  test('a used name is a 409, unless it is the same fork and `return_existing` is set', async () => {
    const { fork, createModel } = await trained(1);
    const { body } = await fork({ name: 'second' });
    expect(await fork({ name: 'second' })).toMatchObject({ status: 409 });
    const wanted = { name: 'second', return_existing: true };
    expect(await fork(wanted)).toMatchObject({ status: 200, body });
    expect(await fork({ ...wanted, step: 1 })).toMatchObject({ status: 200, body });
    expect(await fork({ ...wanted, step: 0 })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('local/desk/agent:step0') },
    });
    await createModel({ name: 'third' });
    expect(await fork({ name: 'third', return_existing: true })).toMatchObject({ status: 409 });
  });

  test('concurrent forks with one name are one model, without leftover weights', async () => {
    const { fork, dataFolder } = await trained(1);
    const answers = await Promise.all(Array.from({ length: 5 }, () => fork({ name: 'second' })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409, 409]);
    expect(readdirSync(join(dataFolder, 'models'))).toHaveLength(2);
  });

  test('a repeat with the same Idempotency-Key is the same fork, even after a crash before its answer', async () => {
    const { fork, model, service, dataFolder, call } = await trained(1);
    const key = { 'idempotency-key': 'fork-1' };
    const first = await fork({ name: 'second' }, key);
    expect((await fork({ name: 'second' }, key)).body).toEqual(first.body);
    expect((await fork({ name: 'third' }, key)).status).toBe(409);
    await call('DELETE', `/v1/preview/models/${model.id}`);
    await service.close();
    const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'));
    database.exec('UPDATE idempotency_keys SET status = NULL, body = NULL, model_id = NULL');
    database.close();
    const again = await start({ dataFolder });
    const repeat = await again.call('POST', `/v1/preview/models/${model.id}/fork`, { name: 'second' }, key);
    expect(repeat.body).toEqual(first.body);
  });

  test('the files of a fork without a record are removed at the next start', async () => {
    const { service, dataFolder, folderOf } = await trained(1);
    await service.close();
    for (const half of ['step-0', 'step-0.partial'])
      mkdirSync(join(folderOf(unknown, 0), '..', half), { recursive: true });
    const { call } = await start({ dataFolder });
    expect(existsSync(join(dataFolder, 'models', unknown))).toBe(false);
    expect((await call('GET', `/v1/preview/models/${unknown}`)).status).toBe(404);
  });

  test('a copy that fails leaves no files', async () => {
    const { fork, call, dataFolder, model, folderOf } = await trained(1);
    rmSync(folderOf(model.id, 1), { recursive: true });
    expect((await fork({ name: 'second' })).status).toBe(500);
    expect(readdirSync(join(dataFolder, 'models'))).toEqual([model.id]);
    expect((await call('GET', '/v1/preview/models')).body.data).toHaveLength(1);
  });
});
