import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { openSqliteStore } from '../../../src/service/store/sqlite-store.ts';
import { temporaryFolder } from '../../support/files.ts';
import { door } from '../../support/scripted-engine.ts';
import { group, trajectory } from '../harness.ts';
import { open } from '../opened.ts';

const [jobs, eventsOfJob] = [20, 500];

/** A data folder with a model of many jobs and events, and functions that read its tables. */
async function withHistory() {
  const dataFolder = await temporaryFolder();
  const before = await open({ dataFolder });
  const model = await before.createModel();
  await before.createModel('other');
  const log = { split: 'train', trajectory_groups: [group(trajectory(1, [1]), trajectory(0, [1]))] };
  for (const key of ['log 1', 'log 2'])
    await before.call('POST', `/v1/preview/models/${model.id}/log`, log, { 'idempotency-key': key });
  await before.close();
  const path = join(dataFolder, 'martingale.sqlite');
  const database = new DatabaseSync(path);
  const job =
    database.prepare(`INSERT INTO jobs (id, model_id, kind, status, created_at, ended_at, resolved_config, tenant)
    VALUES (?, ?, 'sft', 'succeeded', 'then', 'then', '{}', 'key')`);
  const event = database.prepare(
    `INSERT INTO events (id, job_id, type, data) VALUES (?, ?, 'gradient_step', '{}')`,
  );
  const ids = Array.from({ length: jobs }, () => randomUUID());
  database.exec('BEGIN');
  for (const id of ids) {
    job.run(id, model.id);
    for (let index = 0; index < eventsOfJob; index++) event.run(randomUUID(), id);
  }
  database.exec('COMMIT');
  database.close();
  const count = () => {
    const reader = new DatabaseSync(path, { readOnly: true });
    const of = (table: string) => reader.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n;
    const counts = Object.fromEntries(
      ['models', 'checkpoints', 'jobs', 'events', 'logs', 'idempotency_keys', 'deleted_models'].map(
        (table) => [table, of(table)],
      ),
    );
    reader.close();
    return counts;
  };
  return { dataFolder, path, model, jobId: ids[0] ?? '', count };
}

/** Of the remaining model. */
const rest = {
  ...{ models: 1, checkpoints: 1, jobs: 0, events: 0, logs: 0, idempotency_keys: 0, deleted_models: 0 },
};

test('the rows of a deleted model are removed a few in each tick', async () => {
  const { path, model, count } = await withHistory();
  const store = openSqliteStore(path);
  let turns = 0;
  const turn = () => {
    turns++;
    counting = setImmediate(turn);
  };
  let counting = setImmediate(turn);
  await store.deleteModel(model.id);
  expect(turns).toBe(0);
  await store.clearDeletedModels();
  clearImmediate(counting);
  expect(turns).toBeGreaterThan((jobs * eventsOfJob) / 1000);
  await store.close();
  expect(count()).toEqual(rest);
});

test('a model is unknown from the start of its deletion, even if rows remain', async () => {
  const { dataFolder, model, jobId } = await withHistory();
  const { service, call, createModel } = await open({ dataFolder });
  const held = door();
  const clear = service.store.clearDeletedModels;
  service.store.clearDeletedModels = async () => {
    await held.wait();
    await clear();
  };
  const path = `/v1/preview/models/${model.id}`;
  const deleted = call('DELETE', path);
  await held.reached;
  expect((await call('GET', path)).status).toBe(404);
  expect((await call('DELETE', path)).status).toBe(404);
  for (const what of ['', '/events', '/cancel'])
    expect(
      (await call(what === '/cancel' ? 'POST' : 'GET', `/v1/preview/training-jobs/${jobId}${what}`)).status,
    ).toBe(404);
  expect((await call('GET', '/v1/preview/models')).body.data).toHaveLength(1);
  const log = { split: 'train', trajectory_groups: [group(trajectory(1, [1]), trajectory(0, [1]))] };
  // The key was removed with the model: its first answer is not repeated.
  expect((await call('POST', `${path}/log`, log, { 'idempotency-key': 'log 1' })).status).toBe(404);
  const again = await createModel();
  expect(again.id).not.toBe(model.id);
  held.open();
  expect((await deleted).body).toEqual({ model_id: model.id, deleted_checkpoints: 1, deleted_run: false });
  expect((await call('GET', '/v1/preview/models')).body.data).toHaveLength(2);
});

test('a deletion that a crash interrupted is completed at the next start', async () => {
  const { dataFolder, path, model, count } = await withHistory();
  const store = openSqliteStore(path);
  expect(await store.deleteModel(model.id)).toHaveLength(1);
  await store.close();
  expect(count()).toMatchObject({ models: 1, events: jobs * eventsOfJob, deleted_models: 1 });
  const { close } = await open({ dataFolder });
  await close();
  expect(count()).toEqual(rest);
  expect(readdirSync(join(dataFolder, 'models'))).not.toContain(model.id);
});

test('a new model with the same id gets none of the remaining rows', async () => {
  const { path, model, count } = await withHistory();
  const store = openSqliteStore(path);
  const record = await store.model(model.id);
  if (!record) throw new Error('no model');
  await store.deleteModel(model.id);
  const first = { id: 'first', modelId: model.id, step: 0, folder: null, metrics: {}, createdAt: 'now' };
  expect(await store.insertModel(record, first)).toBe(true);
  await store.clearDeletedModels();
  expect(await store.allCheckpoints(model.id)).toEqual([first]);
  await store.close();
  expect(count()).toEqual({ ...rest, models: 2, checkpoints: 2 });
});
