import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import type { Json } from '../../service/harness.ts';
import { temporaryFolder } from '../../support/files.ts';
import { start } from './started.ts';

/** One gradient step of several seconds. */
const examples = 1200;
const lines = Array.from({ length: examples }, (_, index) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `count ${index}` },
      { role: 'assistant', content: Array.from({ length: 60 }, (_, at) => index + at).join(' ') },
    ],
  }),
).join('\n');

test('a step of a checkpoint that is killed goes on where it was, and ends with the same weights', {
  tags: ['long'],
  timeout: 300_000,
}, async () => {
  const parent = await temporaryFolder();
  const dataFolder = join(parent, 'data');
  const checkpoint = await generateCheckpoint(parent, 'qwen3');
  const env = { ...process.env, MARTINGALE_TEST_ENGINE: 'embedded', MARTINGALE_TEST_CHECKPOINT: checkpoint };
  let service = await start(dataFolder, { env });

  const submit = async (name: string) => {
    const { call } = service;
    const model = await call('POST', '/v1/preview/models', { project: 'p', name, base_model: 'generated' });
    const { url } = (await call('POST', '/v1/preview/uploads', lines)).body;
    const config = { batch_size: examples };
    const job = { model_id: model.body.id, training_data_url: url, config };
    const { body } = await call('POST', '/v1/preview/sft-training-jobs', job);
    const folder = join(dataFolder, 'models', model.body.id, 'checkpoints/step-1');
    return { id: body.id as string, scratch: join(dataFolder, `scratch/${body.id}`), folder };
  };
  /** The weights, and what the step reported. */
  const ended = async ({ id, folder }: { id: string; folder: string }): Promise<unknown> => {
    const events = await service.follow(id);
    expect(events.map(({ type }) => type)).toEqual(['training_started', 'gradient_step', 'training_ended']);
    const { tokens_per_second, ...metrics } = (events[1] as Json).data;
    await expect.poll(() => readdir(join(dataFolder, 'scratch'))).toEqual([]);
    return [metrics, await readFile(join(folder, 'model.safetensors'), 'hex')];
  };
  const killedAt = async (scratch: string, change: (kept: Buffer) => void) => {
    await expect.poll(() => existsSync(scratch), { timeout: 60_000, interval: 20 }).toBe(true);
    process.kill(service.pid, 'SIGKILL');
    const kept = await readFile(scratch);
    change(kept);
    await writeFile(scratch, kept);
    service = await start(dataFolder, { env });
  };

  const whole = await ended(await submit('whole'));
  const killed = await submit('killed');
  await killedAt(killed.scratch, () => {});
  expect(await ended(killed)).toEqual(whole);
  // What it goes on with is what was kept.
  const changed = await submit('changed');
  await killedAt(changed.scratch, (kept) => kept.writeFloatLE(1, 48));
  expect(await ended(changed)).not.toEqual(whole);
});
