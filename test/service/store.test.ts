import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { JobEvents } from '../../src/service/jobs/job-events.ts';
import { JobQueue } from '../../src/service/jobs/job-queue.ts';
import { DataFiles } from '../../src/service/store/files.ts';
import { storeSchema } from '../../src/service/store/schema.ts';
import { openSqliteStore } from '../../src/service/store/sqlite-store.ts';
import type { JobRecord } from '../../src/service/store/store.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, door, ScriptedEngine } from '../support/scripted-engine.ts';

const createdAt = new Date(0).toISOString();
const modelId = randomUUID();
/** Ids as the service makes them. */
const [a, b] = [randomUUID(), randomUUID()];

const job = (id: string): JobRecord => ({
  ...{ id, modelId, kind: 'rl', status: 'queued', createdAt, resolvedConfig: {} },
  ...{
    startedAt: null,
    endedAt: null,
    errorMessage: null,
    step: null,
    untrained: null,
    uploadSha256: null,
    groupIds: null,
    traceparent: null,
    tenant: 'key',
  },
});
const event = () => ({ id: randomUUID(), type: 'training_failed', data: { error_message: 'why' } }) as const;
const failed = { status: 'failed', errorMessage: 'no reason' } as const;

async function openStore() {
  const folder = await temporaryFolder();
  const files = await DataFiles.open(folder);
  const store = openSqliteStore(join(folder, 'store.sqlite'));
  onTestFinished(() => store.close());
  await store.insertModel(
    {
      ...{ id: modelId, entity: 'local', project: 'desk', name: 'agent' },
      ...{ baseModel: baseModel.id, createdAt, lastStep: 0, forkedFrom: null },
    },
    { id: 'checkpoint', modelId, step: 0, folder: null, metrics: {}, createdAt },
  );
  return { store, files };
}

test('a job ends once', async () => {
  const { store } = await openStore();
  await store.insertJob(job(a));
  const first = event();
  expect(await store.finishJob(a, createdAt, failed, first)).toBe(true);
  expect(await store.finishJob(a, createdAt, failed, event())).toBe(false);
  expect(await store.finishJob('nowhere', createdAt, failed, event())).toBe(false);
  const { items } = await store.events(a, { limit: 10, order: 'asc' });
  expect(items).toEqual([first]);
});

test('a model with unfinished jobs is not deleted, and a deleted model gets no job', async () => {
  const { store } = await openStore();
  expect(await store.insertJob(job(a))).toBe(true);
  expect(await store.insertJob(job(a))).toBe(true);
  expect(await store.deleteModel(modelId)).toBeNull();
  await store.finishJob(a, createdAt, failed, event());
  expect(await store.deleteModel(modelId)).toMatchObject([{ step: 0 }]);
  expect(await store.insertJob(job(b))).toBe(false);
  const log = {
    id: 'log',
    modelId,
    split: 'train',
    offset: 0,
    bytes: 1,
    groups: 1,
    trajectories: 1,
    createdAt,
  };
  expect(await store.insertLog(log)).toBe(false);
});

test('two concurrent deletions leave a model with a checkpoint', async () => {
  const { store } = await openStore();
  expect(await store.deleteCheckpoints(modelId, [0])).toBeNull();
  await store.insertJob(job(a));
  const second = { id: 'second', modelId, step: 1, folder: 'step-1', metrics: {}, createdAt };
  await store.finishJob(a, createdAt, { status: 'succeeded', checkpoint: second, untrained: null }, event());
  const deletions = await Promise.all([[0], [1]].map((steps) => store.deleteCheckpoints(modelId, steps)));
  expect(deletions).toEqual([[expect.objectContaining({ step: 0 })], null]);
  expect(await store.allCheckpoints(modelId)).toEqual([second]);
});

test('a job that is cancelled while the queue starts it does not run', async () => {
  const { store, files } = await openStore();
  await store.insertJob(job(a));
  const engine = new ScriptedEngine();
  const queue = new JobQueue({
    ...{ engine, store, files, events: new JobEvents(store), onCheckpoint: () => {}, log: () => {} },
    prepare: async () => ({ steps: 0, batches: (async function* () {})() }),
  });
  const held = door();
  const read = store.firstJobs.bind(store);
  store.firstJobs = async () => {
    const jobs = await read();
    await held.wait();
    return jobs;
  };
  queue.wake();
  await held.reached;
  await queue.cancel(a);
  held.open();
  await queue.close();
  expect(await store.job(a)).toMatchObject({ status: 'cancelled' });
  expect((await store.events(a, { limit: 10, order: 'asc' })).items).toHaveLength(1);
  expect(engine.trainings).toBe(0);
});

test('a job that the engine does not stop is reported as running, and is cancelled once it stops', async () => {
  const { store, files } = await openStore();
  await store.insertJob(job(a));
  const engine = new ScriptedEngine();
  const held = door();
  engine.train = () => {
    const left = held.wait();
    return left.then(() => Promise.reject(new Error('left')));
  };
  const queue = new JobQueue({
    ...{ engine, store, files, events: new JobEvents(store), onCheckpoint: () => {}, log: () => {} },
    ...{ cancelTimeoutMs: 1, prepare: async () => ({ steps: 0, batches: (async function* () {})() }) },
  });
  queue.wake();
  await held.reached;
  const refused = { status: 503, code: 'job_still_runs' };
  await expect(queue.cancel(a)).rejects.toMatchObject(refused);
  held.open();
  await expect.poll(async () => (await store.job(a))?.status, { interval: 2 }).toBe('cancelled');
  await queue.close();
});

test('a queue that is closed while it starts a job leaves the job to the next service', async () => {
  const { store, files } = await openStore();
  await store.insertJob(job(a));
  const engine = new ScriptedEngine();
  const queue = new JobQueue({
    ...{ engine, store, files, events: new JobEvents(store), onCheckpoint: () => {}, log: () => {} },
    prepare: async () => ({ steps: 0, batches: (async function* () {})() }),
  });
  const held = door();
  const read = store.firstJobs.bind(store);
  store.firstJobs = async () => {
    const jobs = await read();
    await held.wait();
    return jobs;
  };
  queue.wake();
  await held.reached;
  const closed = queue.close();
  held.open();
  await closed;
  expect(await store.job(a)).toMatchObject({ status: 'queued' });
  expect(engine.trainings).toBe(0);
});

test('a payload that cannot be removed neither fails its job nor stops the queue', async () => {
  const { store, files } = await openStore();
  await store.insertJob(job(a));
  await store.insertJob(job(b));
  files.removePayload = () => Promise.reject(new Error('read-only'));
  const events = new JobEvents(store);
  const queue = new JobQueue({
    ...{ engine: new ScriptedEngine(), store, files, events, onCheckpoint: () => {}, log: () => {} },
    prepare: async () => ({ steps: 0, batches: (async function* () {})() }),
  });
  queue.wake();
  const signal = new AbortController().signal;
  for (const id of [a, b]) {
    const types: string[] = [];
    for await (const happened of events.follow(id, undefined, { signal, idleMs: 60_000 }))
      types.push(...happened.map(({ type }) => type));
    expect(types).toEqual(['training_started', 'training_ended']);
  }
  await queue.close();
  expect(await store.newestCheckpoint(modelId)).toMatchObject({ step: 2 });
});

test.each([
  { version: 1, code: 'data_folder_too_old' },
  { version: storeSchema.version + 1, code: 'data_folder_too_new' },
])('a store with schema version $version is refused and left unchanged', async ({ version, code }) => {
  const path = join(await temporaryFolder(), 'store.sqlite');
  const other = new DatabaseSync(path);
  other.exec(`CREATE TABLE models (id TEXT); PRAGMA user_version = ${version}`);
  other.close();
  const refused = expect.objectContaining({
    ...{ code, message: expect.stringContaining(`has schema version ${version}; this martingale reads`) },
  });
  expect(() => openSqliteStore(path)).toThrow(refused);
  const left = new DatabaseSync(path);
  onTestFinished(() => left.close());
  expect(left.prepare('SELECT name FROM sqlite_schema').all()).toEqual([{ name: 'models' }]);
  expect(left.prepare('PRAGMA user_version').get()).toEqual({ user_version: version });
});
