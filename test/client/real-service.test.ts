import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClient, type ReportedTrainingEvent } from '../../src/client/index.ts';
import { startService } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

async function start() {
  const dataFolder = await temporaryFolder();
  const service = await startService({ engine: new ScriptedEngine(), dataFolder, apiKey: 'key' });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey, backoffMs: 1 });
  onTestFinished(async () => {
    await client.close();
    await service.close();
  });
  return { client, service, folder: dataFolder };
}

describe('the client with the real service', () => {
  it('runs a whole training: model, SFT job, samples, log, RL job, events, checkpoints', async () => {
    const { client } = await start();
    expect(await client.health()).toEqual({ status: 'ok' });
    expect((await client.systemCheck()).database?.success).toBe(true);
    expect((await client.inferenceModels.list()).map(({ id }) => id)).toContain(baseModel.id);
    expect(await client.models.baseModels()).toEqual([baseModel.id]);
    const created = { project: 'desk', name: 'agent', base_model: baseModel.id };
    const model = await client.models.create(created);
    await expect(client.models.create(created)).rejects.toMatchObject({ code: 'conflict' });
    expect(await client.models.get(model.id)).toEqual(model);
    expect((await client.models.list()).data).toEqual([model]);

    const example = {
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'yes' },
      ],
    };
    const upload = await client.uploads.create(`${JSON.stringify(example)}\n`);
    const supervised = { model_id: model.id, training_data_url: upload.url };
    const sft = await client.sftTrainingJobs.create(supervised);
    expect(await typesOf(client.trainingJobs.follow(sft.id))).toEqual([
      'training_started',
      'gradient_step',
      'training_ended',
    ]);

    const name = `${model.entity}/${model.project}/${model.name}`;
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const sampled = () =>
      client.chat.completions.create({ model: name, messages, logprobs: true, return_token_ids: true });
    const completions = [await sampled(), await sampled()];
    expect(completions[0]?.model).toBe(`${name}:step1`);
    const trajectories = completions.map(({ choices: [choice] }, reward) => {
      if (!choice) throw new Error('no choice');
      return { messages_and_choices: [...messages, choice], reward };
    });
    const groups = [{ trajectories }];
    const log = { split: 'train', trajectory_groups: groups };
    expect(await client.models.log(model.id, log)).toMatchObject({ num_trajectories: 2 });

    const request = { model_id: model.id, trajectory_groups: groups };
    const job = await client.trainingJobs.create(request, { idempotencyKey: 'once' });
    expect(await client.trainingJobs.create(request, { idempotencyKey: 'once' })).toEqual(job);
    const types = await typesOf(client.trainingJobs.follow(job.id));
    expect(types.at(-1)).toBe('training_ended');
    expect(await client.trainingJobs.get(job.id)).toMatchObject({ status: 'succeeded', step: 2 });
    const events: string[] = [];
    for await (const { type } of client.trainingJobs.events(job.id, { limit: 1 })) events.push(type);
    expect(events).toEqual(types);

    const newest = await client.models.checkpoints.list(model.id, { order: 'desc', limit: 1 });
    expect(newest).toMatchObject({ data: [{ step: 2 }], has_more: true });
    expect(await client.models.checkpoints.delete(model.id, { steps: [1, 7] })).toEqual({
      deleted_count: 1,
      not_found_steps: [7],
    });
    expect(await client.models.delete(model.id)).toMatchObject({ model_id: model.id });
    await expect(client.models.get(model.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('forks a model, downloads a checkpoint and reads the OpenAPI document', async () => {
    const { client, folder } = await start();
    const model = await client.models.create({ project: 'desk', name: 'agent', base_model: baseModel.id });
    const forked = await client.models.fork(model.id, { name: 'other', step: 0 });
    expect(forked).toMatchObject({ name: 'other', forked_from: { model_id: model.id, step: 0 } });
    expect(await client.models.get(forked.id)).toEqual(forked);
    const again = await client.models.fork(model.id, { name: 'other', step: 0, return_existing: true });
    expect(again).toEqual(forked);

    const { checkpoints } = client.models;
    const opened = await checkpoints.download(forked.id, 0);
    const chunks: Uint8Array[] = [];
    for await (const chunk of opened.stream) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    expect(opened.bytes).toBe(bytes.length);
    expect(opened.fileName).toMatch(/^[\w.-]+\.safetensors$/);
    const file = join(folder, 'downloaded');
    expect(await checkpoints.downloadTo(forked.id, 0, file)).toEqual({ file, bytes: bytes.length });
    expect(await readFile(file)).toEqual(bytes);
    await expect(checkpoints.download(forked.id, 7)).rejects.toMatchObject({ code: 'not_found' });

    const { paths } = await client.openApi();
    expect(paths).toHaveProperty('/v1/preview/models/{model_id}/fork');
  });

  it('may use the vendor’s field names', async () => {
    const { service, client } = await start();
    const options = { baseUrl: service.url, apiKey: service.apiKey, project: 'team/project' };
    const deployed = createClient({ ...options, dialect: 'deployed' });
    onTestFinished(() => deployed.close());
    const model = await deployed.models.create({ project: 'desk', name: 'agent', base_model: baseModel.id });
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const request = { model: `${model.entity}/desk/agent`, messages, n: 2, return_token_ids: true };
    const { choices } = await deployed.chat.completions.create({ ...request, engine_xargs: null });
    const trajectories = choices.map((choice, reward) => ({
      messages_and_choices: [...messages, choice],
      reward,
    }));
    const groups = [{ trajectories }];
    await deployed.models.log(model.id, { split: 'train', trajectory_groups: groups });
    const job = await deployed.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { vendor_k2_tau: 0.25 },
    });
    const vendorJob = await client.trainingJobs.get(job.id);
    expect(vendorJob.resolved_config).toMatchObject({ vendor_k2_tau: 0.25 });
    expect((await deployed.inferenceModels.list()).length).toBeGreaterThan(0);
  });

  it('streams a completion and reads the service’s errors', async () => {
    const { client, service } = await start();
    let content = '';
    const request = { model: baseModel.id, messages: [{ role: 'user' as const, content: 'hi' }] };
    const whole = await client.chat.completions.create({ ...request, seed: 1 });
    for await (const chunk of await client.chat.completions.create({ ...request, seed: 1, stream: true })) {
      content += chunk.choices[0]?.delta.content ?? '';
    }
    expect(content).toBe(whole.choices[0]?.message.content);
    const unknown = client.chat.completions.create({ ...request, model: 'e/p/nobody' });
    await expect(unknown).rejects.toMatchObject({ code: 'not_found' });
    const invalid = client.models.create({ project: 'no spaces allowed', base_model: baseModel.id });
    await expect(invalid).rejects.toMatchObject({
      code: 'unprocessable',
      issues: [{ loc: ['body', 'project'] }],
    });
    const stranger = createClient({ baseUrl: service.url, apiKey: 'other' });
    await expect(stranger.models.list()).rejects.toMatchObject({ code: 'authentication_failed' });
    await stranger.close();
  });
});

async function typesOf(events: AsyncIterable<ReportedTrainingEvent>): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of events) types.push(type);
  return types;
}
