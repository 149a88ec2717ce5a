import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Engine } from '../../src/engines/engine.ts';
import { startService } from '../../src/service/index.ts';
import { testedModels } from '../support/base-models.ts';
import { temporaryFolder } from '../support/files.ts';
import { callsTo, type Json } from './harness.ts';

const example = (reply: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  });

describe.each(testedModels)('with $baseModel', ({ baseModel, open }) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open();
  });
  afterAll(() => engine?.close());

  test('training a fork equals training its origin, bit for bit, including the optimizer', async () => {
    const dataFolder = await temporaryFolder();
    const service = await startService({ engine, dataFolder, apiKey: 'key' });
    onTestFinished(() => service.close());
    const { raw, call, follow } = callsTo(service.url, 'key');
    const post = async (path: string, body: object | string): Promise<Json> =>
      (await call('POST', `/v1/preview/${path}`, body)).body;
    const train = async (modelId: string, reply: string) => {
      const { url } = await post('uploads', example(reply));
      const job = await post('sft-training-jobs', { model_id: modelId, training_data_url: url });
      expect((await follow(job.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    };
    const checkpoint = (modelId: string, step: number, file: string) =>
      readFileSync(join(dataFolder, 'models', modelId, 'checkpoints', `step-${step}`, file));

    const origin = await post('models', { project: 'desk', base_model: baseModel });
    await train(origin.id, 'yes');
    const fork = await post(`models/${origin.id}/fork`, '{}');
    await train(origin.id, 'no');
    await train(fork.id, 'no');
    for (const file of ['model.safetensors', 'optimizer.safetensors']) {
      expect(checkpoint(fork.id, 1, file).equals(checkpoint(origin.id, 2, file)), file).toBe(true);
      expect(checkpoint(fork.id, 1, file).equals(checkpoint(fork.id, 0, file)), file).toBe(false);
    }

    const download = async (modelId: string, step: number) =>
      Buffer.from(
        await (await raw('GET', `/v1/preview/models/${modelId}/checkpoints/${step}/download`)).arrayBuffer(),
      );
    expect((await download(fork.id, 0)).equals(await download(origin.id, 1))).toBe(true);
    expect((await download(origin.id, 0)).equals(await download(origin.id, 1))).toBe(false);
  });
});
