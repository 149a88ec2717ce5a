import { describe, expect, it } from 'vitest';
import { json, serve, uuid } from './server.ts';

const model = {
  id: uuid(1),
  entity: 'e',
  project: 'p',
  name: 'n',
  base_model: 'tiny',
  run_id: null,
  forked_from: null,
  engine: null,
};
const page = (data: { id: string }[], has_more: boolean) => ({
  object: 'list',
  data,
  first_id: data[0]?.id ?? '',
  last_id: data.at(-1)?.id ?? '',
  has_more,
});
const checkpoint = (step: number) => ({ id: uuid(step), step, metrics: { 'val/reward': step / 10 } });
const choice = {
  index: 0,
  message: { role: 'assistant', content: 'hi', unknown_to_us: [1] },
  logprobs: null,
  finish_reason: 'stop',
  token_ids: [1, 2],
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: 'sha' },
  extra: { kept: true },
};
const completion = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'e/p/n:step3',
  choices: [choice],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

describe('every call', () => {
  it.each(['', '/', '/v1', '/v1/', '/api/training', '/api/training/v1'])(
    'goes to its path under the base URL "%s", with the key',
    async (suffix) => {
      const { url, connect, received } = await serve(json(model));
      await connect({ baseUrl: url + suffix }).models.get(model.id);
      const prefix = suffix.startsWith('/api') ? '/api/training' : '';
      expect(received[0]).toMatchObject({ method: 'GET', url: `${prefix}/v1/preview/models/${model.id}` });
      expect(received[0]?.headers).toMatchObject({ authorization: 'Bearer key', accept: 'application/json' });
    },
  );

  it('escapes ids in its path', async () => {
    const { client, received } = await serve(json({ detail: 'no' }, 404));
    await expect(client.models.get('../../keys?x=1')).rejects.toMatchObject({ code: 'not_found' });
    expect(received[0]?.url).toBe('/v1/preview/models/..%2F..%2Fkeys%3Fx%3D1');
  });
});

describe('models', () => {
  it('are deleted when they are gone after an attempt whose answer was lost, and not found otherwise', async () => {
    const gone = json({ detail: 'no' }, 404);
    const lost = await serve(json({ detail: 'lost' }, 502), gone);
    const deletion = { model_id: model.id, deleted_checkpoints: null, deleted_run: null };
    expect(await lost.client.models.delete(model.id)).toEqual(deletion);
    for (const answers of [[gone], [json({ detail: 'slow down' }, 429), gone]]) {
      const { client } = await serve(...answers);
      await expect(client.models.delete(model.id)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('are created, retrieved and deleted', async () => {
    const deletion = { model_id: model.id, deleted_checkpoints: 4, deleted_run: true };
    const { client, received } = await serve(json(model), json(model), json(deletion));
    expect(await client.models.create({ project: 'p', base_model: 'tiny', return_existing: true })).toEqual(
      model,
    );
    expect(await client.models.get(model.id)).toEqual(model);
    expect(await client.models.delete(model.id)).toEqual(deletion);
    expect(received.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'POST /v1/preview/models',
      `GET /v1/preview/models/${model.id}`,
      `DELETE /v1/preview/models/${model.id}`,
    ]);
    expect(JSON.parse(received[0]?.body ?? '')).toEqual({
      project: 'p',
      base_model: 'tiny',
      return_existing: true,
    });
  });

  it('are forked from a checkpoint, with an idempotency key', async () => {
    const fork = { ...model, id: uuid(2), name: 'm', forked_from: { model_id: model.id, step: 3 } };
    const { client, received } = await serve(json({ detail: 'not now' }, 500), json(fork), json(fork));
    expect(await client.models.fork(model.id, { step: 3, name: 'm' })).toEqual(fork);
    await client.models.fork(model.id);
    expect(received[0]).toMatchObject({ method: 'POST', url: `/v1/preview/models/${model.id}/fork` });
    expect(received.map(({ body }) => JSON.parse(body))).toEqual([
      { step: 3, name: 'm' },
      { step: 3, name: 'm' },
      {},
    ]);
    const keys = received.map(({ headers }) => headers['idempotency-key']);
    expect(keys[0]).toBe(keys[1]);
    expect(keys[0]).not.toBe(keys[2]);
  });

  it('log trajectories, and return the counts that the service sends', async () => {
    const taken = { split: 'train', num_groups: 2, num_trajectories: 2 };
    const { client, received } = await serve(json(taken), json(null), (response) => response.end());
    const group = { trajectories: [{ messages_and_choices: [choice], reward: 1 }] };
    const log = { split: 'train', trajectory_groups: [group, group] };
    const send = () => client.models.log(model.id, JSON.parse(JSON.stringify(log)));
    expect(await send()).toEqual(taken);
    expect(await send()).toBeNull();
    expect(await send()).toBeNull();
    expect(JSON.parse(received[0]?.body ?? '')).toEqual(log);
    expect(received[0]?.url).toBe(`/v1/preview/models/${model.id}/log`);
  });
});

describe('a list', () => {
  it('is a page when awaited', async () => {
    const first = page([checkpoint(3)], true);
    const { client, received } = await serve(json(first));
    const got = await client.models.checkpoints.list(model.id, { limit: 1, order: 'desc', after: uuid(4) });
    expect(got).toEqual(first);
    expect(received[0]?.url).toBe(
      `/v1/preview/models/${model.id}/checkpoints?after=${uuid(4)}&limit=1&order=desc`,
    );
  });

  it('is every item when iterated, page after page', async () => {
    const pages = [page([checkpoint(0), checkpoint(1)], true), page([checkpoint(2)], true), page([], false)];
    const { client, received } = await serve(...pages.map((body) => json(body)));
    const steps: number[] = [];
    for await (const { step } of client.models.checkpoints.list(model.id, { limit: 2 })) steps.push(step);
    expect(steps).toEqual([0, 1, 2]);
    expect(received.map(({ url }) => new URLSearchParams(url.split('?')[1]).get('after'))).toEqual([
      null,
      uuid(1),
      uuid(2),
    ]);
  });

  it.each([
    ['an empty page', page([], true)],
    ['the same page again', page([checkpoint(0)], true)],
  ])('ends even if the service claims that more follows %s', async (_, body) => {
    const { client, received } = await serve(json(body));
    const iterate = async () => {
      for await (const _item of client.models.list()) expect(received.length).toBeLessThan(4);
    };
    await expect(iterate()).rejects.toMatchObject({ code: 'bad_response' });
  });

  it('rejects once when it is iterated', async () => {
    const { client } = await serve(json({ detail: 'gone' }, 404));
    const iterate = async () => {
      for await (const _item of client.models.checkpoints.list(model.id)) expect.unreachable();
    };
    await expect(iterate()).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('checkpoints', () => {
  it('are deleted by step', async () => {
    const { client, received } = await serve(json({ deleted_count: 1, not_found_steps: [9] }));
    const answer = await client.models.checkpoints.delete(model.id, { steps: [2, 9] });
    expect(answer).toEqual({ deleted_count: 1, not_found_steps: [9] });
    expect(received[0]).toMatchObject({ method: 'DELETE', body: '{"steps":[2,9]}' });
  });
});

describe('training jobs', () => {
  it('are created, read and cancelled, even if the service returns only their id', async () => {
    const job = { id: uuid(5), status: 'cancelled' };
    const { client, received } = await serve(json({ id: uuid(5) }), json({ id: uuid(5) }), json(job, 202));
    const config = { vendor_k2_tau: 0.1, epsilon: null };
    const request = { model_id: model.id, trajectory_groups: [], experimental_config: config };
    expect(await client.trainingJobs.create(request)).toEqual({ id: uuid(5) });
    expect(await client.trainingJobs.get(uuid(5))).toEqual({ id: uuid(5) });
    expect(await client.trainingJobs.cancel(uuid(5))).toEqual(job);
    expect(JSON.parse(received[0]?.body ?? '')).toEqual(request);
    expect(received[2]).toMatchObject({ method: 'POST', url: `/v1/preview/training-jobs/${uuid(5)}/cancel` });
  });

  it('of kind SFT accept the id of an upload', async () => {
    const upload = { id: 'u', url: 'upload:sha256:ab', sha256: 'ab', bytes: 3 };
    const { client, received } = await serve(json(upload, 201), json({ id: uuid(6) }));
    const { url } = await client.uploads.create('{"messages":[]}\n');
    await client.sftTrainingJobs.create({ model_id: model.id, training_data_url: url });
    expect(received[0]?.headers['content-type']).toBe('application/jsonl');
    expect(received[0]).toMatchObject({ url: '/v1/preview/uploads', body: '{"messages":[]}\n' });
    expect(JSON.parse(received[1]?.body ?? '')).toMatchObject({ training_data_url: upload.url });
  });

  it('list their events and skip unknown types', async () => {
    const known = { id: uuid(1), type: 'gradient_step', data: { loss: 1 } };
    const unknown = { id: uuid(2), type: 'coffee_break', data: { minutes: 'ten' } };
    const { client } = await serve(json(page([known, unknown], false)));
    expect(await client.trainingJobs.events(uuid(5))).toMatchObject({ data: [known], last_id: uuid(2) });
  });
});

describe('a chat completion', () => {
  it('is returned with all its fields, those outside the contract too', async () => {
    const { client, received } = await serve(json(completion));
    const request = { model: 'e/p/n', messages: [{ role: 'user' as const, content: 'hé' }] };
    expect(await client.chat.completions.create(request)).toEqual(completion);
    expect(received[0]).toMatchObject({ method: 'POST', url: '/v1/chat/completions' });
    expect(JSON.parse(received[0]?.body ?? '')).toEqual(request);
    expect(received[0]?.headers['idempotency-key']).toBeUndefined();
  });
});

describe('the deployed dialect', () => {
  it('sends the vendor’s names', async () => {
    const list = { object: 'list', data: [] };
    const { connect, received } = await serve(
      json(completion),
      json({ id: uuid(5) }),
      json(list),
      json(null),
    );
    const client = connect({ dialect: 'deployed', project: 'team/project' });
    await client.chat.completions.create({ messages: [], engine_xargs: { a: 1 } });
    const config = { vendor_k2_tau: 0.1, ppo: true };
    await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [],
      experimental_config: config,
    });
    await client.inferenceModels.list();
    await client.models.log(model.id, { split: 'val', trajectory_groups: [] });
    const bodies = received.map(({ body }) => (body === '' ? null : JSON.parse(body)));
    expect(bodies[0]).toEqual({ messages: [], vllm_xargs: { a: 1 } });
    expect(bodies[1].experimental_config).toEqual({ kimi_k2_tau: 0.1, ppo: true });
    expect(received[2]?.headers).toMatchObject({ 'openai-project': 'team/project' });
    expect(received[2]?.headers['compat-project']).toBeUndefined();
    expect(bodies[3]).toEqual({ model_id: model.id, split: 'val', trajectory_groups: [] });
  });

  it('is not used by default', async () => {
    const { connect, received } = await serve(json({ object: 'list', data: [] }));
    await connect({ project: 'team/project' }).inferenceModels.list();
    expect(received[0]?.headers).toMatchObject({ 'compat-project': 'team/project' });
  });
});

describe('the service itself', () => {
  it('lists its inference models at a path of their own', async () => {
    const entry = { id: 'tiny', object: 'model', created: 1, owned_by: 'martingale', root: 'tiny' };
    const { url, connect, received } = await serve(json({ object: 'list', data: [entry] }));
    const client = connect({ baseUrl: 'http://127.0.0.1:1/v1', inferenceBaseUrl: `${url}/inference` });
    expect(await client.inferenceModels.list()).toEqual([entry]);
    expect(received[0]?.url).toBe('/inference/v1/models');
  });

  it('lists the base models that it trains', async () => {
    const { client, received } = await serve(json(['tiny', 'small']), json({ data: [] }));
    expect(await client.models.baseModels()).toEqual(['tiny', 'small']);
    expect(received[0]).toMatchObject({ method: 'GET', url: '/v1/preview/base-models' });
    await expect(client.models.baseModels()).rejects.toMatchObject({ code: 'bad_response' });
  });

  it('is healthy if it answers', async () => {
    const { client, received } = await serve(json({ anything: 1 }));
    expect(await client.health()).toEqual({ status: 'ok' });
    expect(received[0]?.url).toBe('/v1/health');
  });

  it('returns its OpenAPI document unchanged', async () => {
    const document = { openapi: '3.1.0', info: { title: 'x' }, paths: { '/v1/health': {} } };
    const { client, received } = await serve(json(document), json({ swagger: '2.0' }));
    expect(await client.openApi()).toEqual(document);
    expect(received[0]).toMatchObject({ method: 'GET', url: '/v1/openapi.json' });
    await expect(client.openApi()).rejects.toMatchObject({ code: 'bad_response' });
  });

  it('returns a failed check as a result', async () => {
    const works = { success: true, duration: 1, error: null };
    const waits = { ...works, in_hand: 3, oldest_ms: 20, refused: 7 };
    const broken = { success: false, duration: 9, error: 'disk full' };
    const report = { api: works, database: broken, training_queue: works, inference_queue: waits };
    const { client, received } = await serve(json(report, 503));
    expect(await client.systemCheck()).toEqual(report);
    expect(received).toHaveLength(1);
  });

  it('treats a 503 without a check as an unavailable service', async () => {
    const { client } = await serve((response) => {
      response.writeHead(503, { 'content-type': 'text/html' });
      response.end('<html>No backend</html>');
    });
    await expect(client.systemCheck()).rejects.toMatchObject({
      code: 'service_failed',
      status: 503,
      detail: 'a page of HTML, "No backend"',
    });
  });
});
