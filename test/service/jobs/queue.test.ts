import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { door } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { groups, line, rl, sft } from './support.ts';

describe('the queue', () => {
  test('runs jobs one at a time in order, each on the checkpoint of the previous one', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const jobs: string[] = [];
    for (let index = 0; index < 3; index++)
      jobs.push((await call('POST', rl, { model_id: model.id, trajectory_groups: groups })).body.id);
    await held.reached;
    const status = async () =>
      Promise.all(jobs.map(async (id) => (await call('GET', `${rl}/${id}`)).body.status));
    expect(await status()).toEqual(['running', 'queued', 'queued']);
    held.open();
    for (const id of jobs) await follow(id);
    expect(await status()).toEqual(['succeeded', 'succeeded', 'succeeded']);
    expect(engine.trained.map(({ from }) => from.folder?.split('/').at(-1) ?? null)).toEqual([
      null,
      'step-1',
      'step-2',
    ]);
  });

  test('cancels a queued and a running job; an ended one is a conflict', async () => {
    const { call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    const create = async () =>
      (await call('POST', rl, { model_id: model.id, trajectory_groups: groups })).body.id;
    const done = await create();
    await follow(done);
    const held = door();
    engine.hold = held.wait;
    const [running, queued] = [await create(), await create()];
    await held.reached;
    for (const id of [queued, running]) {
      expect((await call('POST', `${rl}/${id}/cancel`)).body).toMatchObject({ id, status: 'cancelled' });
      expect((await follow(id)).at(-1)).toMatchObject({
        type: 'training_failed',
        data: { error_message: expect.stringContaining('cancelled') },
      });
      expect((await call('POST', `${rl}/${id}/cancel`)).status).toBe(200);
    }
    expect((await call('POST', `${rl}/${done}/cancel`)).status).toBe(409);
    expect(readdirSync(join(dataFolder, 'models', model.id, 'checkpoints'))).toEqual(['step-1']);
    expect(readdirSync(join(dataFolder, 'jobs'))).toEqual([]);
  });

  test('cancels an SFT job whose replies are being encoded', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const encoding = Promise.withResolvers<void>();
    engine.encodeReplies = async (_baseModel, _replies, { signal } = {}) => {
      encoding.resolve();
      return new Promise((_, reject) =>
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true }),
      );
    };
    const upload = await call('POST', '/v1/preview/uploads', line('a'));
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    await encoding.promise;
    expect((await call('POST', `${rl}/${job.body.id}/cancel`)).body.status).toBe('cancelled');
    expect((await follow(job.body.id)).at(-1).data.error_message).toContain('cancelled');
    // The next job runs only after the end of this one.
    const next = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    expect((await follow(next.body.id)).at(-1).type).toBe('training_ended');
  });

  test('a failing engine ends the job with its message, and the next job runs', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    engine.failTraining = new Error('out of memory');
    const create = async () =>
      (await call('POST', rl, { model_id: model.id, trajectory_groups: groups })).body.id;
    const events = await follow(await create());
    expect(events.map(({ type }) => type)).toEqual(['training_started', 'training_failed']);
    expect(events[1].data.error_message).toBe('out of memory');
    engine.failTraining = null;
    expect((await follow(await create())).at(-1)).toMatchObject({
      type: 'training_ended',
      data: { step: 1 },
    });
  });
});
