// A disk that is really full and really read-only: a tmpfs in a mount namespace. Where the system forbids that,
// storage.test.ts shows the same.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import type { Json } from '../../service/harness.ts';
import { sharedFolder } from '../../support/files.ts';
import { heldJob, until } from './held-job.ts';
import { useAll } from './scenario.ts';
import { smallDisk } from './small-disk.ts';
import { start, startIn } from './started.ts';

const parent = sharedFolder();

test('a full disk is reported, and everything continues when there is room', async (context) => {
  const disk = await smallDisk();
  if (!disk) return context.skip();
  const { under, place, fill, free } = disk;
  const dataFolder = join(place, 'data');
  const hold = `${dataFolder}-hold`;
  const service = await start(dataFolder, { under, env: { ...process.env, MARTINGALE_TEST_HOLD: hold } });
  expect(await useAll(service, 'room', free)).toEqual([]);
  const job = await heldJob(service.call, disk.seen(hold), 'held');
  fill();
  const check = await service.call('GET', '/v1/system-check');
  expect(check).toMatchObject({
    status: 503,
    body: {
      api: { success: true },
      database: { success: false, error: expect.stringMatching(/storage_full/) },
    },
  });
  expect((await service.call('GET', '/v1/health')).status).toBe(200);
  // Too large for memory: it goes to disk as it arrives.
  const large = JSON.stringify({ split: 'train', trajectory_groups: [], x: 'x'.repeat(4 * 2 ** 20) });
  const path = `/v1/preview/models/${job.modelId}/log`;
  const cut = await service.call('POST', path, large);
  expect(cut).toMatchObject({ status: 503, body: { error: { code: 'storage_full' } } });
  job.release();
  await job.waits('is full');
  free();
  await job.ended(service.follow);

  fill();
  const refusals = await useAll(service, 'full', free);
  expect(refusals.length).toBeGreaterThan(0);
  for (const { code } of refusals) expect(code).toBe('storage_full');
  expect((await service.call('GET', '/v1/system-check')).status).toBe(200);

  fill();
  await service.stop();
  expect(await startIn(dataFolder, { under })).toEqual({
    refused: expect.objectContaining({
      code: 'storage_full',
      message: expect.stringMatching(/cannot keep its data in .*no space left.*Free space/),
    }),
  });
  free();
  const again = await start(dataFolder, { under });
  expect((await again.call('GET', '/v1/preview/models')).body.data).toHaveLength(3);
});

test('a service does not start on a read-only data folder, and says why', {
  tags: ['long'],
}, async (context) => {
  const disk = await smallDisk();
  if (!disk) return context.skip();
  const { under, place, remount } = disk;
  const dataFolder = join(place, 'data');
  const before = await start(dataFolder, { under });
  await useAll(before, 'before', () => {});
  await before.stop();
  expect(remount('ro')).toBe(0);
  expect(await startIn(dataFolder, { under })).toEqual({
    refused: expect.objectContaining({
      code: 'storage_read_only',
      message: expect.stringMatching(/cannot keep its data in .*Make the folder writable/),
    }),
  });
  expect(remount('rw')).toBe(0);
  const after = await start(dataFolder, { under });
  expect(await useAll(after, 'after', () => {})).toEqual([]);
});

test.for([
  ['a tiny model', 'martingale-tiny'],
  ["a checkpoint's adapter", 'generated'],
] as const)(
  'the weights of %s that do not fit keep their job waiting and are written completely when they fit',
  {
    tags: ['long'],
  },
  async ([, baseModel], context) => {
    const disk = await smallDisk();
    if (!disk) return context.skip();
    const { under, place, seen, remount } = disk;
    const dataFolder = join(place, 'data');
    const env: NodeJS.ProcessEnv = { ...process.env, MARTINGALE_TEST_ENGINE: 'embedded' };
    if (baseModel === 'generated') env.MARTINGALE_TEST_CHECKPOINT = await generateCheckpoint(parent, 'qwen3');
    const { call, follow } = await start(dataFolder, { under, env });
    const user = { role: 'user', content: 'hi' };
    const base = { base_model: baseModel, project: 'desk' };
    const { body: model } = await call('POST', '/v1/preview/models', base);
    const chat = (name: string) =>
      call('POST', '/v1/chat/completions', {
        ...{ model: name, messages: [user], n: 2, max_tokens: 4, logprobs: true, return_token_ids: true },
      });
    const { choices } = (await chat(baseModel)).body;
    const trajectories = choices.map((choice: Json, reward: number) => ({
      ...{ messages_and_choices: [user, choice], reward },
    }));
    const { body: job } = await call('POST', '/v1/preview/training-jobs', {
      ...{ model_id: model.id, trajectory_groups: [{ trajectories }] },
    });
    const waits = await until(call, '/v1/system-check', ({ body }) => !body.training_queue.success);
    expect(waits.body.training_queue.error).toMatch(/storage_full/);
    expect((await chat(baseModel)).status).toBe(200);
    // What did not fit takes no space.
    const checkpoints = join(dataFolder, 'models', model.id, 'checkpoints');
    expect(readdirSync(seen(checkpoints))).toEqual([]);
    expect(remount('size=64m')).toBe(0);
    const types = (await follow(job.id)).map(({ type }) => type);
    expect(types).toEqual(['training_started', 'gradient_step', 'training_ended']);
    const { entity, project, name } = model;
    expect((await chat(`${entity}/${project}/${name}`)).body.model).toBe(
      `${entity}/${project}/${name}:step1`,
    );
  },
);
