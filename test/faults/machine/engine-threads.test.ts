import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Engine } from '../../../src/engines/engine.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { callsTo, frames, type Json } from '../../service/harness.ts';
import { testedModels } from '../../support/base-models.ts';
import { sharedFolder } from '../../support/files.ts';

describe.each(testedModels)('with $baseModel', ({ baseModel, open }) => {
  const folder = sharedFolder();
  const arm = () => writeFileSync(join(folder, 'armed'), '');
  const disarm = () => rmSync(join(folder, 'armed'), { force: true });

  afterEach(disarm);

  let engine: Engine;
  let service: RunningService;
  let calls: ReturnType<typeof callsTo>;

  beforeAll(async () => {
    engine = await open({
      ...{ threads: 1, threadHeapBytes: 192 * 2 ** 20, threadTimeoutMs: 2500 },
      logitsProcessors: { 'test.Deadly': new URL('modules/deadly.ts', import.meta.url) },
    });
    service = await startService({ engine, dataFolder: join(folder, 'data'), apiKey: 'test-key' });
    calls = callsTo(service.url);
  });

  afterAll(async () => {
    await service?.close();
    await engine?.close();
  });

  const user = { role: 'user', content: 'hi' };
  const deadly = (way: string, once = false) => ({
    logits_processors: [{ qualname: 'test.Deadly', kwargs: { folder, way, once } }],
  });
  const chat = (fields: object = {}) =>
    calls.call('POST', '/v1/chat/completions', {
      ...{ model: baseModel, messages: [user], max_tokens: 8, seed: 1 },
      ...{ logprobs: true, return_token_ids: true, ...fields },
    });

  const long = { tags: ['long'] };
  const ways: [string, object][] = [
    ['exit', {}],
    ['throw', long],
    ['allocate', long],
    ['loop', long],
  ];

  describe.each(ways)('a sampler thread that ends: %s', (way, options) => {
    test('fails requests in flight with a 503, and another one answers the next', options, async () => {
      const before = await chat(deadly(way));
      arm();
      const [first, second] = await Promise.all([chat(deadly(way)), chat({ seed: 2, max_tokens: 200 })]);
      disarm();
      expect(first).toMatchObject({ status: 503, body: { error: { code: 'worker_died' } } });
      expect(first?.headers.get('retry-after')).toBe('1');
      // It ran in the same thread, unless it arrived later or ended before.
      if (second?.status !== 200) expect(second?.body.error.code).toBe('worker_died');
      const after = await chat(deadly(way));
      expect(after.body.choices[0].token_ids).toEqual(before.body.choices[0].token_ids);
      expect((await calls.call('GET', '/v1/system-check')).status).toBe(200);
    });
  });

  test('a stream whose thread dies says so in its last chunk', async () => {
    arm();
    const answer = await calls.raw('POST', '/v1/chat/completions', {
      ...{ model: baseModel, messages: [user], max_tokens: 8, stream: true },
      ...deadly('exit', true),
    });
    const chunks = frames(await answer.text());
    expect(chunks.at(-1)).toMatchObject({ error: { code: 'worker_died' } });
  });

  test('a hanging thread shows in the system check before it is ended', async () => {
    arm();
    const hanging = chat(deadly('loop'));
    const found = async () => (await calls.call('GET', '/v1/system-check')).body.inference_queue;
    await expect.poll(found).toMatchObject({ success: false, error: expect.stringContaining('silent for') });
    // Waiting requests end with it.
    expect(await Promise.all([hanging, chat()])).toMatchObject([{ status: 503 }, { status: 503 }]);
    disarm();
    expect((await chat()).status).toBe(200);
  });

  describe.each(ways)('a trainer thread that ends: %s', (way, options) => {
    test(
      'is replaced and runs the job again; after three deaths the job fails and the next one runs',
      options,
      async () => {
        const model = (
          await calls.call('POST', '/v1/preview/models', {
            ...{ project: 'desk', name: `trained-${way}`, base_model: baseModel },
          })
        ).body;
        const choices = async (once: boolean) =>
          (await chat({ n: 2, max_tokens: 4, ...deadly(way, once) })).body.choices;
        const submit = async (sampled: Json[]) => {
          const trajectories = sampled.map((choice, reward) => ({
            messages_and_choices: [user, choice],
            reward,
          }));
          const job = { model_id: model.id, trajectory_groups: [{ trajectories }] };
          return (await calls.call('POST', '/v1/preview/training-jobs', job)).body.id;
        };
        const { follow } = calls;
        const [once, always] = [await choices(true), await choices(false)];
        arm();
        const passed = await follow(await submit(once));
        expect(passed.map(({ type }) => type)).toEqual([
          'training_started',
          'gradient_step',
          'training_ended',
        ]);
        arm();
        const poisoned = await submit(always);
        const next = await submit(once);
        const failed = await follow(poisoned);
        disarm();
        expect(failed.map(({ type }) => type)).toEqual(['training_started', 'training_failed']);
        expect(failed[1].data.error_message).toMatch(/died in each of 3 runs/);
        const last = (await follow(next)).at(-1);
        expect(last).toMatchObject({ type: 'training_ended', data: { step: 2 } });
      },
    );
  });
});
