import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { JobEvents } from '../../../src/service/jobs/job-events.ts';
import { JobQueue } from '../../../src/service/jobs/job-queue.ts';
import { DataFiles } from '../../../src/service/store/files.ts';
import { openSqliteStore } from '../../../src/service/store/sqlite-store.ts';
import { type Json, start } from '../../service/harness.ts';
import { groups, rl } from '../../service/jobs/support.ts';
import { temporaryFolder } from '../../support/files.ts';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';

const sft = '/v1/preview/sft-training-jobs';

/** The data folder as it would be if the process were killed now. */
async function asIfKilled(dataFolder: string): Promise<string> {
  const left = join(await temporaryFolder(), 'data');
  execFileSync('cp', ['-r', dataFolder, left]);
  return left;
}

/** Holds the training of a model before this step. */
async function startHeld(dataFolder: string, heldModel: () => string, beforeStep = 0) {
  const engine = new ScriptedEngine();
  const held = door();
  let steps = 0;
  const train = engine.train.bind(engine);
  engine.train = async (request) => {
    const isHeld = request.folder.includes(heldModel());
    steps = 0;
    engine.hold = isHeld ? async () => (steps++ === beforeStep ? held.wait() : undefined) : null;
    await train(request);
  };
  return { held, ...(await start({ dataFolder, engine })) };
}

const types = (events: Json[]) => events.map(({ type }) => type);

test('a job that crashes the process in every run lets other jobs pass and finally fails', {
  tags: ['long'],
}, async () => {
  let dataFolder = await temporaryFolder();
  let deadly = 'none yet';
  const jobs: Record<string, string> = {};
  const order: string[] = [];
  for (let life = 0; life < 10; life++) {
    const { held, service, call, createModel, follow } = await startHeld(dataFolder, () => deadly);
    const submit = async (name: string, model: Json) => {
      const { body } = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
      jobs[name] = body.id;
    };
    if (life === 0) {
      const model = await createModel({ name: 'deadly' });
      deadly = model.id;
      await submit('deadly', model);
      await held.reached;
      await submit('other', await createModel({ name: 'other' }));
      await submit('later', model);
    }
    await held.reached;
    const { body } = await call('GET', `${rl}/${jobs.other}`);
    order.push(body.status);
    if (body.status === 'succeeded')
      expect(types(await follow(jobs.other ?? '')).at(-1)).toBe('training_ended');
    dataFolder = await asIfKilled(dataFolder);
    await service.close();
  }
  // After three crashes the other model's job comes first.
  expect(order).toEqual([...Array(3).fill('queued'), ...Array(7).fill('succeeded')]);
  const { call, follow } = await start({ dataFolder });
  expect(types(await follow(jobs.deadly ?? ''))).toEqual(['training_started', 'training_failed']);
  const { body } = await call('GET', `${rl}/${jobs.deadly}`);
  expect(body.status).toBe('failed');
  expect(body.error_message).toMatch(
    /^The whole service ended 10 times while this job ran, without a further gradient step: the last 10 times after about as long a run, 0 s\. Look for the reason/,
  );
  expect(body.started_at).not.toBeNull();
  expect(types(await follow(jobs.later ?? ''))).toEqual([
    'training_started',
    'gradient_step',
    'training_ended',
  ]);
});

test('a job that gains a step in each run does not fail, however often it is killed', async () => {
  const steps = 12;
  let dataFolder = await temporaryFolder();
  let model = 'none yet';
  let id = '';
  for (let life = 1; life < steps; life++) {
    const { held, service, call, createModel } = await startHeld(dataFolder, () => model, life);
    if (life === 1) {
      model = (await createModel()).id;
      const line = '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n';
      const data = await call('POST', '/v1/preview/uploads', line.repeat(steps));
      const job = { model_id: model, training_data_url: data.body.url, config: { batch_size: 1 } };
      id = (await call('POST', sft, job)).body.id;
    }
    await held.reached;
    const told = async () => (await call('GET', `${rl}/${id}/events?limit=100`)).body.data;
    await expect.poll(async () => (await told()).length, { interval: 2 }).toBe(1 + life);
    dataFolder = await asIfKilled(dataFolder);
    await service.close();
  }
  const { follow } = await start({ dataFolder });
  const events = types(await follow(id));
  expect(events).toEqual(['training_started', ...Array(steps).fill('gradient_step'), 'training_ended']);
});

test('a job that is stopped cleanly again and again does not fail', async () => {
  const dataFolder = await temporaryFolder();
  let model = 'none yet';
  let id = '';
  for (let life = 0; life < 10; life++) {
    const { held, service, call, createModel } = await startHeld(dataFolder, () => model);
    if (life === 0) {
      model = (await createModel()).id;
      id = (await call('POST', rl, { model_id: model, trajectory_groups: groups })).body.id;
    }
    await held.reached;
    await service.close();
  }
  const { follow } = await start({ dataFolder });
  expect(types(await follow(id))).toEqual(['training_started', 'gradient_step', 'training_ended']);
});

test('a run counts as lost from before its job is prepared', async () => {
  const dataFolder = await temporaryFolder();
  const { call, createModel, service } = await startHeld(dataFolder, () => '');
  const model = await createModel();
  await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
  await service.close();
  const files = await DataFiles.open(dataFolder);
  const store = openSqliteStore(files.databasePath);
  onTestFinished(() => store.close());
  const prepared = door();
  const queue = new JobQueue({
    ...{ engine: new ScriptedEngine(), store, files, events: new JobEvents(store) },
    ...{ onCheckpoint: () => {}, log: () => {} },
    prepare: async (_job, _model, signal) => {
      await Promise.race([
        prepared.wait(),
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      ]);
      throw new Error('not reached');
    },
  });
  queue.wake();
  await prepared.reached;
  await store.requeueLostJobs();
  expect(await store.firstJobs()).toMatchObject([{ modelId: model.id, lostRuns: 1 / 8 }]);
  await queue.close();
});

test('the queue does not read the payloads of waiting jobs to choose the next one', async () => {
  const dataFolder = await temporaryFolder();
  const { held, service, call, createModel } = await startHeld(dataFolder, () => '');
  for (const name of ['one', 'two']) {
    const model = await createModel({ name });
    for (let index = 0; index < 3; index++)
      await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
  }
  await held.reached;
  await service.close();
  const files = await DataFiles.open(dataFolder);
  const database = new DatabaseSync(files.databasePath);
  database.exec("UPDATE jobs SET resolved_config = 'no JSON'");
  database.close();
  const store = openSqliteStore(files.databasePath);
  onTestFinished(() => store.close());
  expect(await store.firstJobs()).toMatchObject([{ sequence: 1 }, { sequence: 4 }]);
  const engine = new ScriptedEngine();
  const queue = new JobQueue({
    ...{ engine, store, files, events: new JobEvents(store), onCheckpoint: () => {}, log: () => {} },
    prepare: () => Promise.reject(new Error('not reached')),
  });
  await queue.check();
});
