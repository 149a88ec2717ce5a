import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type CheckpointOptions, createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { callsTo, type Json } from '../../service/harness.ts';
import { sharedFolder } from '../../support/files.ts';

const parent = sharedFolder();
const user = { role: 'user', content: 'hi' };
let folder: string;
let other: string;
/** The trained model, and what it answers. */
let model: Json;
let answered: Json;

type Calls = ReturnType<typeof callsTo>;

/** Uses a service on the data folder, started with these checkpoints. */
async function served<Result>(
  checkpoints: Omit<CheckpointOptions, 'id'>[],
  use: (calls: Calls) => Promise<Result>,
): Promise<Result> {
  const named = checkpoints.map((checkpoint) => ({ ...checkpoint, id: 'generated' }));
  const engine = await createEmbeddedEngine({ threads: 1, checkpoints: named });
  const service = await startService({
    ...{ engine, dataFolder: join(parent, 'data'), apiKey: 'test-key' },
    log: (entry) => {
      if (entry.event === 'removal_failed' || entry.level === 'error') failures.push(entry);
    },
  });
  try {
    return await use(callsTo(service.url));
  } finally {
    await service.close();
    await engine.close();
  }
}
const failures: unknown[] = [];

const chat = ({ call }: Calls, name = 'local/kept/model') =>
  call('POST', '/v1/chat/completions', {
    ...{ model: name, messages: [user], max_tokens: 6, seed: 1 },
    ...{ logprobs: true, return_token_ids: true },
  });

async function train({ call, follow }: Calls): Promise<Json> {
  const example = { messages: [user, { role: 'assistant', content: 'yes' }] };
  const upload = await call('POST', '/v1/preview/uploads', JSON.stringify(example));
  const job = { model_id: model.id, training_data_url: upload.body.url };
  const { status, body } = await call('POST', '/v1/preview/sft-training-jobs', job);
  return status === 200 ? (await follow(body.id)).at(-1) : { status, body };
}

const download = async ({ raw }: Calls): Promise<Response> =>
  raw('GET', `/v1/preview/models/${model.id}/checkpoints/1/download`);

beforeAll(async () => {
  folder = await generateCheckpoint(parent, 'qwen3');
  other = await generateCheckpoint(parent, 'llama3');
  await served([{ folder }], async (calls) => {
    const fields = { project: 'kept', name: 'model', base_model: 'generated' };
    model = (await calls.call('POST', '/v1/preview/models', fields)).body;
    expect(await train(calls)).toMatchObject({ type: 'training_ended' });
    answered = (await chat(calls)).body.choices[0];
  });
});

// Whatever the service was started with in between, the model is as it was.
afterAll(async () => {
  await served([{ folder }], async (calls) => {
    const { body } = await chat(calls);
    expect(body).toMatchObject({ model: 'local/kept/model:step1', choices: [answered] });
    expect((await download(calls)).status).toBe(200);
    expect(await train(calls)).toMatchObject({ type: 'training_ended', data: { step: 2 } });
  });
  expect(failures).toEqual([]);
});

test('a service without the checkpoint refuses its models by name, keeps them, and can fork and delete them', () =>
  served([], async (calls) => {
    const { call } = calls;
    expect(await chat(calls)).toMatchObject({
      status: 404,
      body: { detail: expect.stringContaining('its base model generated is not one of this engine') },
    });
    expect(await train(calls)).toMatchObject({
      status: 422,
      body: { detail: [{ msg: expect.stringContaining('"generated"') }] },
    });
    const refused = await download(calls);
    expect([refused.status, await refused.text()]).toEqual([422, expect.stringContaining('generated')]);
    const { body: found } = await call('GET', `/v1/preview/models/${model.id}`);
    expect(found).toMatchObject({ name: 'model', base_model: 'generated' });
    const fork = await call('POST', `/v1/preview/models/${model.id}/fork`, { name: 'fork' });
    expect(await call('DELETE', `/v1/preview/models/${fork.body.id}`)).toMatchObject({
      status: 200,
      body: { deleted_checkpoints: 1 },
    });
    expect(await chat(calls, 'martingale-tiny')).toMatchObject({ status: 200 });
  }));

test.each<[string, () => Omit<CheckpointOptions, 'id'>, string]>([
  [
    'another rank',
    () => ({ folder, lora: { rank: 4, alpha: 32 } }),
    'lora_rank 16, but its base model has 4',
  ],
  ['another alpha', () => ({ folder, lora: { alpha: 4 } }), 'lora_alpha 32, but its base model has 4'],
  ['other targets', () => ({ folder, lora: { targets: ['q_proj'] } }), 'its base model has q_proj now'],
  [
    'all weights in place of an adapter',
    () => ({ folder, train: 'all' }),
    'train lora, but its base model has all now',
  ],
  ['other weights of the same shapes', () => ({ folder: other }), 'base_weights sha256-'],
])('a model is refused by name after a start with %s', (_, checkpoint, problem) =>
  served([checkpoint()], async (calls) => {
    const refusal = expect.stringContaining(problem);
    expect(await chat(calls)).toMatchObject({
      status: 422,
      body: { detail: [{ msg: refusal }], error: { code: 'base_model_changed' } },
    });
    expect(await train(calls)).toMatchObject({ type: 'training_failed', data: { error_message: refusal } });
    const refused = await download(calls);
    expect([refused.status, await refused.text()]).toEqual([422, refusal]);
    expect(await chat(calls, 'generated')).toMatchObject({ status: 200 });
  }),
);

test('a service goes on when the folder of its checkpoint disappears', () =>
  served([{ folder }], async (calls) => {
    await rename(folder, `${folder}-away`);
    try {
      const { body } = await chat(calls);
      expect(body).toMatchObject({ model: 'local/kept/model:step1', choices: [answered] });
      const schema = { type: 'json_schema', json_schema: { name: 'yes', schema: { type: 'boolean' } } };
      const fields = { model: 'generated', messages: [user], max_tokens: 9, response_format: schema };
      expect(await calls.call('POST', '/v1/chat/completions', fields)).toMatchObject({ status: 200 });
      const { body: fork } = await calls.call('POST', `/v1/preview/models/${model.id}/fork`, {
        name: 'fork',
      });
      const example = { messages: [user, { role: 'assistant', content: 'no' }] };
      const upload = await calls.call('POST', '/v1/preview/uploads', JSON.stringify(example));
      const job = { model_id: fork.id, training_data_url: upload.body.url };
      const begun = await calls.call('POST', '/v1/preview/sft-training-jobs', job);
      expect((await calls.follow(begun.body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
      await calls.call('DELETE', `/v1/preview/models/${fork.id}`);
    } finally {
      await rename(`${folder}-away`, folder);
    }
  }));
