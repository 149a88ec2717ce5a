import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { EngineError } from '../../../src/engines/engine.ts';
import { ServiceError } from '../../../src/service/errors.ts';
import { type Json, start } from '../../service/harness.ts';
import { groups, rl } from '../../service/jobs/support.ts';
import { temporaryFolder } from '../../support/files.ts';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { until } from './held-job.ts';

const noRoom = () =>
  Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' });
const died = () => new EngineError('worker_died', 'an engine thread died (out of luck)');

async function startQueue(options: { dataFolder?: string; engine?: ScriptedEngine } = {}) {
  const service = await start(options);
  const { call, createModel } = service;
  const submit = async (name = 'agent'): Promise<string> => {
    const model = await createModel({ name, return_existing: true });
    return (await call('POST', rl, { model_id: model.id, trajectory_groups: groups })).body.id;
  };
  const job = async (id: string): Promise<Json> => (await call('GET', `${rl}/${id}`)).body;
  /** Resolves once the queue says that it waits. */
  const waiting = async (): Promise<string> => {
    const check = await until(call, '/v1/system-check', ({ body }) => !body.training_queue.success);
    expect(check.status).toBe(503);
    return check.body.training_queue.error;
  };
  return { ...service, submit, job, waiting };
}

const whole = ['training_started', 'gradient_step', 'training_ended'];
const types = (events: Json[]) => events.map(({ type }) => type);

/** While it is on, no transaction of this process can be committed. */
function fullDisk() {
  const exec = DatabaseSync.prototype.exec;
  let on = false;
  DatabaseSync.prototype.exec = function (sql) {
    if (on && sql === 'COMMIT')
      throw Object.assign(new Error('database or disk is full'), { code: 'ERR_SQLITE_ERROR', errcode: 13 });
    exec.call(this, sql);
  };
  onTestFinished(() => {
    DatabaseSync.prototype.exec = exec;
  });
  return {
    fill: () => {
      on = true;
    },
    free: () => {
      on = false;
    },
  };
}

describe('a job that the machine cuts short', () => {
  test('waits in the queue, does not fail, and repeats no event', async () => {
    const { submit, waiting, job, engine, follow, log } = await startQueue();
    engine.failTraining = noRoom();
    const id = await submit();
    expect(await waiting()).toMatch(/storage_full.*is full/);
    expect((await job(id)).status).toBe('queued');
    engine.failTraining = null;
    expect(types(await follow(id))).toEqual(whole);
    expect(await job(id)).toMatchObject({ status: 'succeeded', step: 1, error_message: null });
    const entry = { event: 'training_queue_paused', code: 'storage_full', job: id, pauseMs: 250 };
    expect(log).toContainEqual(expect.objectContaining({ ...entry, error: noRoom().message }));
    expect(log).toContainEqual(expect.objectContaining({ event: 'training_queue_resumed' }));
  });

  test('continues at once when another job arrives', async () => {
    const { submit, engine, follow, log } = await startQueue();
    engine.failTraining = noRoom();
    const first = await submit();
    const pauses = () => log.filter((entry) => JSON.stringify(entry).includes('training_queue_paused'));
    await expect.poll(pauses).toHaveLength(3);
    engine.failTraining = null;
    const second = await submit();
    expect(types(await follow(first))).toEqual(whole);
    expect((await follow(second)).at(-1)).toMatchObject({ data: { step: 2 } });
    expect(pauses()).toMatchObject([{ pauseMs: 250 }, { pauseMs: 500 }, { pauseMs: 1000 }]);
  });

  test('lets the jobs of other models run, and is tried again between them', { tags: ['long'] }, async () => {
    const { createModel, submit, engine, follow, job, log } = await startQueue();
    const { id: broken } = await createModel({ name: 'broken' });
    const train = engine.train.bind(engine);
    let tries = 0;
    engine.train = async (request) => {
      if (!request.folder.includes(broken)) return train(request);
      tries++;
      throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
    };
    const stuck = [await submit('broken'), await submit('broken')];
    for (const name of ['other', 'third', 'other', 'third'])
      expect(types(await follow(await submit(name)))).toEqual(whole);
    await expect.poll(() => tries).toBeGreaterThanOrEqual(3);
    expect((await Promise.all(stuck.map(job))).map(({ status }) => status)).toEqual(['queued', 'queued']);
    const waits = { event: 'training_queue_paused', code: 'storage_failed', job: stuck[0] };
    expect(log).toContainEqual(expect.objectContaining(waits));
    engine.train = train;
    await submit('other');
    for (const [index, id] of stuck.entries()) {
      expect(types(await follow(id))).toEqual(whole);
      expect(await job(id)).toMatchObject({ status: 'succeeded', step: index + 1 });
    }
  });

  test('can be cancelled while it waits', async () => {
    const { submit, waiting, engine, follow, call } = await startQueue();
    engine.failTraining = noRoom();
    const id = await submit();
    await waiting();
    expect(await call('POST', `${rl}/${id}/cancel`)).toMatchObject({
      ...{ status: 200, body: { id, status: 'cancelled' } },
    });
    expect((await follow(id)).at(-1)).toMatchObject({ type: 'training_failed' });
    expect((await call('GET', '/v1/system-check')).status).toBe(200);
  });

  test('waits through a restart', async () => {
    const dataFolder = await temporaryFolder();
    const engine = new ScriptedEngine();
    engine.failTraining = noRoom();
    const before = await startQueue({ dataFolder, engine });
    const id = await before.submit();
    await before.waiting();
    await before.service.close();
    const after = await startQueue({ dataFolder });
    expect(types(await after.follow(id))).toEqual(whole);
  });

  test('trains once if its end cannot be written', { tags: ['long'] }, async () => {
    const disk = fullDisk();
    const { submit, waiting, engine, follow, job } = await startQueue();
    const train = engine.train.bind(engine);
    engine.train = async (request) => {
      await train(request);
      disk.fill();
    };
    const id = await submit();
    await waiting();
    disk.free();
    expect(types(await follow(id))).toEqual(whole);
    expect(await job(id)).toMatchObject({ status: 'succeeded', step: 1 });
    expect(engine.trainings).toBe(1);
  });

  test('answers a cancellation that cannot be written with a 503, and is cancelled when it can be', async () => {
    const disk = fullDisk();
    const { submit, engine, follow, call } = await startQueue();
    const held = door();
    engine.hold = held.wait;
    const id = await submit();
    await held.reached;
    disk.fill();
    const refused = await call('POST', `${rl}/${id}/cancel`);
    expect(refused).toMatchObject({ status: 503, body: { error: { code: 'storage_full' } } });
    disk.free();
    const last = (await follow(id)).at(-1);
    expect(last).toMatchObject({ data: { error_message: 'The job was cancelled while it ran.' } });
    expect((await call('POST', `${rl}/${id}/cancel`)).status).toBe(200);
  });

  test.each([
    ['has been closed', new EngineError('engine_closed', 'the engine has been closed')],
    [
      'has much to check',
      new Error('line 1: full', { cause: new EngineError('constraints_busy', 'too many wait') }),
    ],
    [
      'is not to be had',
      new Error('line 1: later', { cause: new ServiceError(503, 'templates_busy', 'no') }),
    ],
  ])('by an engine that %s waits, too', async (_, failure) => {
    const { submit, waiting, engine, follow } = await startQueue();
    engine.failTraining = failure;
    const id = await submit();
    expect(await waiting()).toContain(failure.message);
    engine.failTraining = null;
    expect(types(await follow(id))).toEqual(whole);
  });
});

describe('an engine that fails in a job', () => {
  test.each([
    ['its thread dies', died()],
    ['it has no memory', new EngineError('out_of_memory', 'no memory')],
    ['it dies while the job is prepared', new Error('line 1: it died', { cause: died() })],
  ])('is asked again, three times in all: %s', async (_, failure) => {
    const { submit, engine, follow, job } = await startQueue();
    engine.failTraining = failure;
    const poisonous = await submit();
    const next = await submit();
    const events = await follow(poisonous);
    engine.failTraining = null;
    expect(types(events)).toEqual(['training_started', 'training_failed']);
    expect((await job(poisonous)).error_message).toBe(
      `The engine died in each of 3 runs of the job: ${failure.message}`,
    );
    expect(types(await follow(next))).toEqual(whole);
  });

  test('and then recovers completes the job as if nothing had happened', async () => {
    const { submit, engine, follow } = await startQueue();
    let deaths = 0;
    engine.hold = async (place) => {
      if (place === 'train' && deaths++ < 2) throw died();
    };
    expect(types(await follow(await submit()))).toEqual(whole);
    expect(deaths).toBe(3);
  });
});
