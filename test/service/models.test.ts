import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { door, special, tokensOf } from '../support/scripted-engine.ts';
import { group, start, trajectory } from './harness.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const unknown = '00000000-0000-4000-8000-000000000000';
const sampled = tokensOf('yes', special.end);
const signal = [group(trajectory(1, sampled), trajectory(0, sampled))];

describe('models', () => {
  test('a model is created, found, listed and deleted', async () => {
    const { call, createModel } = await start();
    const model = await createModel({ entity: null });
    expect(model).toEqual({
      id: expect.stringMatching(uuid),
      entity: 'local',
      project: 'desk',
      name: 'agent',
      base_model: 'scripted-tiny',
      run_id: null,
      forked_from: null,
      engine: expect.any(String),
    });
    expect((await call('GET', `/v1/preview/models/${model.id}`)).body).toEqual(model);
    expect((await call('GET', '/v1/preview/models')).body).toEqual({
      object: 'list',
      data: [model],
      first_id: model.id,
      last_id: model.id,
      has_more: false,
    });
    expect((await call('DELETE', `/v1/preview/models/${model.id}`)).body).toEqual({
      model_id: model.id,
      deleted_checkpoints: 1,
      deleted_run: false,
    });
    expect((await call('GET', `/v1/preview/models/${model.id}`)).status).toBe(404);
    expect((await call('DELETE', `/v1/preview/models/${model.id}`)).status).toBe(404);
  });

  test('have a generated name by default', async () => {
    const { createModel } = await start();
    const [first, second] = [await createModel({ name: null }), await createModel({ name: undefined })];
    expect(first.name).not.toBe(second.name);
  });

  test('a duplicate is a 409, unless `return_existing` is set', async () => {
    const { call, createModel } = await start();
    const model = await createModel();
    const body = { project: 'desk', name: 'agent', base_model: 'scripted-tiny' };
    const refused = await call('POST', '/v1/preview/models', body);
    expect(refused).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('local/desk/agent') },
    });
    expect(await createModel({ return_existing: true })).toEqual(model);
  });

  test('an error names the base models, or the unknown field', async () => {
    const { call } = await start();
    const wrong = await call('POST', '/v1/preview/models', { project: 'p', base_model: 'huge' });
    expect(wrong.status).toBe(422);
    expect(wrong.body.detail).toMatchObject([
      { loc: ['body', 'base_model'], msg: expect.stringContaining('scripted-tiny'), input: 'huge' },
    ]);
    const misspelt = await call('POST', '/v1/preview/models', { project: 'p', basemodel: 'x', colour: null });
    expect(misspelt.body.detail).toMatchObject([{ loc: ['body', 'basemodel'], type: 'extra_forbidden' }]);
    const missing = await call('POST', '/v1/preview/models', { project: 'p' });
    expect(missing.body.detail).toMatchObject([
      { loc: ['body', 'base_model'], msg: 'Field required', type: 'missing' },
    ]);
  });

  test('pages continue after the last id, in both orders', async () => {
    const { call, createModel } = await start();
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) await createModel({ name });
    for (const order of ['asc', 'desc']) {
      const seen: string[] = [];
      let after = '';
      for (;;) {
        const { body } = await call('GET', `/v1/preview/models?limit=2&order=${order}&after=${after}`);
        seen.push(...body.data.map((model: { name: string }) => model.name));
        after = body.last_id;
        if (!body.has_more) break;
      }
      expect(seen).toEqual(order === 'asc' ? names : names.toReversed());
    }
    const foreign = await call('GET', '/v1/preview/models?after=nobody');
    expect(foreign.body.detail).toMatchObject([{ loc: ['query', 'after'] }]);
    const wrong = await call('GET', '/v1/preview/models?limit=101&order=up');
    expect(wrong.status).toBe(422);
    expect(wrong.body.detail).toMatchObject([
      { loc: ['query', 'limit'], type: 'less_than_equal', ctx: { le: 100 } },
      { loc: ['query', 'order'], input: 'up' },
    ]);
  });
});

describe('checkpoints', () => {
  test('a new model lists step 0; each job adds the next; the numbers of deleted ones are not reused', async () => {
    const { call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    const path = `/v1/preview/models/${model.id}/checkpoints`;
    expect((await call('GET', path)).body.data).toEqual([
      { id: expect.stringMatching(uuid), step: 0, metrics: {} },
    ]);
    const train = async () => {
      const job = await call('POST', '/v1/preview/training-jobs', {
        model_id: model.id,
        trajectory_groups: signal,
      });
      expect((await follow(job.body.id)).at(-1)?.type).toBe('training_ended');
    };
    await train();
    await train();
    const deleted = await call('DELETE', path, { steps: [0, 1, 7] });
    expect(deleted.body).toEqual({ deleted_count: 2, not_found_steps: [7] });
    expect(engine.dropped).toHaveLength(1);
    expect(existsSync(join(dataFolder, 'models', model.id, 'checkpoints', 'step-1'))).toBe(false);
    await train();
    const { data } = (await call('GET', `${path}?order=desc`)).body;
    expect(data.map(({ step }: { step: number }) => step)).toEqual([3, 2]);
    expect(data[0].metrics).toMatchObject({ loss: 1, reward: 0.5, num_groups_trainable: 1 });
  });

  test('the last checkpoint cannot be deleted, nor one that a job starts from', async () => {
    const { call, createModel, engine, follow } = await start();
    const model = await createModel();
    const path = `/v1/preview/models/${model.id}/checkpoints`;
    const create = () =>
      call('POST', '/v1/preview/training-jobs', { model_id: model.id, trajectory_groups: signal });
    expect(await call('DELETE', path, { steps: [0] })).toMatchObject({ status: 409 });
    await follow((await create()).body.id);
    const held = door();
    engine.hold = held.wait;
    const job = await create();
    await held.reached;
    expect(await call('DELETE', path, { steps: [1] })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining(job.body.id) },
    });
    expect(await call('DELETE', path, { steps: [0] })).toMatchObject({ status: 200 });
    held.open();
    await follow(job.body.id);
  });

  test('deleting a model cancels its jobs and removes its files', async () => {
    const { call, createModel, engine, dataFolder, follow } = await start();
    const model = await createModel();
    const create = () =>
      call('POST', '/v1/preview/training-jobs', { model_id: model.id, trajectory_groups: signal });
    await follow((await create()).body.id);
    const held = door();
    engine.hold = held.wait;
    const job = await create();
    await held.reached;
    const { body } = await call('DELETE', `/v1/preview/models/${model.id}`);
    expect(body.deleted_checkpoints).toBe(2);
    expect(existsSync(join(dataFolder, 'models', model.id))).toBe(false);
    expect((await call('GET', `/v1/preview/training-jobs/${job.body.id}`)).status).toBe(404);
    expect((await call('GET', `/v1/preview/models/${unknown}/checkpoints`)).status).toBe(404);
  });
});
