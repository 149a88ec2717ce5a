import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engines/engine.ts';
import { baseModel, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { group, type Json, start, trajectory } from './harness.ts';

const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const unknown = '00000000-0000-4000-8000-000000000000';
const whole = expect.toSatisfy(Number.isInteger, 'is a whole number');
const sampled = tokensOf('yes', special.end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const messages = [{ role: 'user', content: 'hi' }];
const example = { messages: [...messages, { role: 'assistant', content: 'yes' }] };

const page = (...data: unknown[]) => ({
  ...{ object: 'list', data, has_more: false },
  ...{ first_id: data.length === 0 ? '' : uuid, last_id: data.length === 0 ? '' : uuid },
});
const completion = {
  id: expect.any(String),
  object: 'chat.completion',
  created: whole,
  model: 'local/desk/agent:step1',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'hello' },
      finish_reason: 'stop',
      stop_reason: null,
      logprobs: {
        content: expect.arrayContaining([
          { token: 'h', logprob: expect.any(Number), bytes: [104], top_logprobs: [] },
        ]),
      },
      token_ids: [...tokensOf('hello'), special.end],
    },
  ],
  prompt_token_ids: expect.arrayContaining([whole]),
  usage: {
    prompt_tokens: whole,
    completion_tokens: 6,
    total_tokens: whole,
    prompt_tokens_details: { cached_tokens: 3 },
  },
};
const chat = { model: 'local/desk/agent', messages, logprobs: true, return_token_ids: true };

interface Row {
  method: string;
  path: string;
  body?: unknown;
  /** Fields of the answer, or the exact answer if it is documented. */
  answer: unknown;
}

/** The interface's table of endpoints, in its order, for a model that has been trained once. */
const table = ({ modelId, jobId, upload }: { modelId: string; jobId: string; upload: string }): Row[] => [
  { method: 'POST', path: '/v1/chat/completions', body: chat, answer: completion },
  { method: 'POST', path: '/v1/chat/completions/', body: chat, answer: completion },
  {
    method: 'POST',
    path: '/v1/preview/models',
    body: { entity: null, project: 'desk', name: 'other', base_model: baseModel.id, return_existing: null },
    answer: {
      id: uuid,
      entity: 'local',
      project: 'desk',
      name: 'other',
      base_model: baseModel.id,
      run_id: null,
    },
  },
  {
    method: 'GET',
    path: `/v1/preview/models/${modelId}/checkpoints`,
    answer: page({ id: uuid, step: 0, metrics: {} }, { id: uuid, step: 1, metrics: { loss: 1 } }),
  },
  {
    method: 'POST',
    path: `/v1/preview/models/${modelId}/log`,
    body: { split: 'train', trajectory_groups: groups },
    answer: {},
  },
  {
    method: 'POST',
    path: '/v1/preview/sft-training-jobs',
    body: {
      model_id: modelId,
      training_data_url: upload,
      config: { batch_size: 'auto', learning_rate: null },
      experimental_config: null,
    },
    answer: { id: uuid },
  },
  {
    method: 'POST',
    path: '/v1/preview/training-jobs',
    body: { model_id: modelId, trajectory_groups: groups },
    answer: { id: uuid },
  },
  {
    method: 'GET',
    path: `/v1/preview/training-jobs/${jobId}`,
    answer: { id: jobId, status: 'succeeded', step: 1 },
  },
  {
    method: 'GET',
    path: `/v1/preview/training-jobs/${jobId}/events`,
    answer: page(
      { id: uuid, type: 'training_started', data: { num_sequences: 1 } },
      { id: uuid, type: 'gradient_step', data: { loss: 1 } },
      { id: uuid, type: 'training_ended', data: {} },
    ),
  },
  {
    method: 'DELETE',
    path: `/v1/preview/models/${modelId}/checkpoints`,
    body: { steps: [0, 9] },
    answer: { deleted_count: 1, not_found_steps: [9] },
  },
  { method: 'GET', path: '/v1/health', answer: { status: 'ok' } },
  {
    method: 'GET',
    path: '/v1/system-check',
    answer: { api: { success: true }, training_queue: { success: true } },
  },
  {
    method: 'GET',
    path: '/v1/models',
    answer: {
      object: 'list',
      data: [
        { id: baseModel.id, object: 'model', created: whole, owned_by: 'scripted', root: baseModel.id },
        { id: 'local/desk/agent', object: 'model', created: whole, owned_by: 'local', root: baseModel.id },
        { id: 'local/desk/other' },
      ],
    },
  },
  {
    method: 'DELETE',
    path: `/v1/preview/models/${modelId}`,
    answer: { model_id: modelId, deleted_checkpoints: whole, deleted_run: false },
  },
];

async function trainedOnce() {
  const running = await start();
  const { call, createModel, follow } = running;
  const model = await createModel();
  const job = await call('POST', '/v1/preview/training-jobs', {
    model_id: model.id,
    trajectory_groups: groups,
  });
  await follow(job.body.id);
  const upload = await call('POST', '/v1/preview/uploads', JSON.stringify(example));
  return { ...running, rows: table({ modelId: model.id, jobId: job.body.id, upload: upload.body.url }) };
}

describe('the table of endpoints', () => {
  test('each answers as documented, with and without the project header', async () => {
    const { call, rows, log } = await trainedOnce();
    expect(rows).toHaveLength(14);
    // The deletions come last, because they delete the objects of the other requests.
    for (const [index, { method, path, body, answer }] of rows.entries()) {
      const headers = { [index % 2 === 0 ? 'compat-project' : 'openai-project']: 'shop/desk' };
      const given = await call(method, path, body, headers);
      expect({ path, status: given.status, body: given.body }).toMatchObject({
        path,
        status: 200,
        body: answer,
      });
      expect(given.headers.get('content-type')).toMatch(/^application\/json/);
      expect(log).toContainEqual(
        expect.objectContaining({
          ...{ event: 'request', method, path: path.replace(/\/$/, ''), status: 200, project: 'shop/desk' },
          request: given.headers.get('x-request-id'),
        }),
      );
    }
  });

  test('the list of inference models has exactly the documented fields', async () => {
    const { call } = await trainedOnce();
    const { body } = await call('GET', '/v1/models');
    expect(Object.keys(body)).toEqual(['object', 'data']);
    for (const entry of body.data)
      expect(Object.keys(entry)).toEqual(['id', 'object', 'created', 'owned_by', 'root']);
  });

  test('each refuses other methods with the allowed ones, and lists them for OPTIONS', async () => {
    const { raw, rows } = await trainedOnce();
    const methodsOf = (path: string) => rows.filter((row) => row.path === path).map(({ method }) => method);
    for (const { path } of rows) {
      const refused = await raw('PATCH', path, {});
      const body: Json = await refused.json();
      expect([path, refused.status]).toEqual([path, 405]);
      const allowed = refused.headers.get('allow')?.split(', ');
      expect(allowed).toEqual(expect.arrayContaining(methodsOf(path)));
      expect(body.detail).toContain('PATCH');
      if (path.startsWith('/v1/chat/')) expect(body.error.code).toBe('method_not_allowed');
      const options = await raw('OPTIONS', path);
      expect([path, options.status, options.headers.get('allow')?.split(', ')]).toEqual([path, 204, allowed]);
      expect(await options.text()).toBe('');
    }
  });

  test('each answers the same with a slash at the end of its path, without a key too', async () => {
    const { call, rows } = await trainedOnce();
    for (const { method, path, body, answer } of rows) {
      const slashed = `${path.replace(/\/$/, '')}/`;
      const { status, body: given } = await call(method, slashed, body);
      expect({ slashed, status, given }).toMatchObject({ slashed, status: 200, given: answer });
      const wrong = { authorization: 'Bearer wrong' };
      const refused = await Promise.all([path, slashed].map((form) => call(method, form, body, wrong)));
      expect(refused.map((one) => one.status)).toEqual([refused[0]?.status, refused[0]?.status]);
    }
    const forms = ['/v1/preview/models', '/v1/preview/models/'];
    const key = { 'idempotency-key': 'once' };
    const fields = { project: 'desk', name: 'slashed', base_model: baseModel.id };
    const [first, again] = await Promise.all(forms.map((path) => call('POST', path, fields, key)));
    expect(first?.status).toBe(200);
    expect(again?.body).toEqual(first?.body);
  });

  test('HEAD answers as GET without a body, even if GET would be a stream of events', async () => {
    const { raw, rows } = await trainedOnce();
    const readable = rows.filter(({ method }) => method === 'GET');
    for (const { path } of readable)
      for (const accept of ['application/json', 'text/event-stream']) {
        const [get, head] = [
          await raw('GET', path, undefined, { accept }),
          await raw('HEAD', path, undefined, { accept }),
        ];
        expect([path, head.status, head.headers.get('content-type')]).toEqual([
          ...[path, get.status, get.headers.get('content-type')],
        ]);
        expect(await head.text()).toBe('');
        expect(await get.text()).not.toBe('');
      }
    expect((await raw('HEAD', '/v1/chat/completions')).status).toBe(405);
  });

  test('each refuses unknown and repeated query parameters by name', async () => {
    const { call, rows } = await trainedOnce();
    for (const { method, path, body } of rows) {
      const { status, body: refusal } = await call(method, `${path}?colour=red`, body);
      expect({ path, status, refusal }).toMatchObject({
        ...{ path, status: 422 },
        refusal: { detail: [{ loc: ['query', 'colour'], type: 'extra_forbidden', input: 'red' }] },
      });
    }
    const twice = await call('GET', '/v1/preview/models?limit=1&limit=2');
    expect(twice).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['query', 'limit'], input: ['1', '2'] }] },
    });
  });

  test('every route ignores a project that is not <team>/<project>, and the log line shows it', async () => {
    const { call, rows, log } = await trainedOnce();
    const others = ['proj_abc', 'a/b/c', '/desk', 'a b/c'];
    for (const [index, { method, path, body, answer }] of rows.entries()) {
      const ignored = others[index % others.length] ?? '';
      const header = index % 2 === 0 ? 'openai-project' : 'compat-project';
      const { status, body: given, headers } = await call(method, path, body, { [header]: ignored });
      expect({ path, status, given }).toMatchObject({ path, status: 200, given: answer });
      expect(log).toContainEqual(
        expect.objectContaining({
          ...{ event: 'request', path: path.replace(/\/$/, ''), project: null, ignoredProject: ignored },
          request: headers.get('x-request-id'),
        }),
      );
    }
  });

  test('a valid project wins over an invalid one; of two valid ones, that in Compat-Project', async () => {
    const { call, log } = await start();
    const mixed = { 'compat-project': 'shop/desk', 'openai-project': 'proj_abc' };
    expect((await call('GET', '/v1/models', undefined, mixed)).status).toBe(200);
    expect(log).toContainEqual(
      expect.objectContaining({ event: 'request', project: 'shop/desk', ignoredProject: 'proj_abc' }),
    );
    const both = { 'compat-project': 'a/b', 'openai-project': 'a/c' };
    expect((await call('GET', '/v1/models', undefined, both)).status).toBe(200);
    expect(log).toContainEqual(
      expect.objectContaining({ event: 'request', project: 'a/b', ignoredProject: 'a/c' }),
    );
  });

  test('each names what does not exist', async () => {
    const { call } = await start();
    const body = { model_id: unknown, trajectory_groups: groups };
    for (const [method, path, given] of [
      ['POST', '/v1/chat/completions', { ...chat, model: 'local/desk/nobody' }],
      ['POST', '/v1/chat/completions/', { ...chat, model: 'nobody' }],
      ['DELETE', `/v1/preview/models/${unknown}`],
      ['DELETE', `/v1/preview/models/${unknown}/checkpoints`, { steps: [0] }],
      ['GET', `/v1/preview/models/${unknown}/checkpoints`],
      ['POST', `/v1/preview/models/${unknown}/log`, { split: 'train', trajectory_groups: groups }],
      ['POST', '/v1/preview/sft-training-jobs', { model_id: unknown, training_data_url: 'upload:sha256-0' }],
      ['POST', '/v1/preview/training-jobs', body],
      ['GET', `/v1/preview/training-jobs/${unknown}`],
      ['GET', `/v1/preview/training-jobs/${unknown}/events`],
      ['GET', '/v1/preview/training-jobs/no-uuid'],
      ['GET', '/v1'],
      ['GET', '/v1/healthy'],
    ] as const) {
      const answer = await call(method, path, given);
      expect([method, path, answer.status]).toEqual([method, path, 404]);
      expect(answer.body.detail).toEqual(expect.any(String));
    }
  });

  test('each reports the path of an invalid field, in the documented form', async () => {
    const { call, rows } = await trainedOnce();
    for (const { method, path } of rows.filter(({ body }) => body !== undefined)) {
      const missing = await call(method, path, {});
      expect({ path, status: missing.status }).toEqual({ path, status: 422 });
      for (const issue of missing.body.detail) {
        expect(issue).toMatchObject({ msg: 'Field required', type: 'missing', input: {} });
        expect(issue.loc).toEqual(['body', expect.any(String)]);
      }
      const cut = await call(method, path, '{"model_id": ');
      expect(cut.body.detail).toMatchObject([
        { loc: ['body'], type: 'json_invalid', ctx: { error: expect.any(String) } },
      ]);
      const list = await call(method, path, []);
      expect(list.body.detail).toMatchObject([{ loc: ['body'], type: 'dict_type', input: [] }]);
    }
    const wrong = await call('POST', '/v1/chat/completions', {
      messages: [...messages, { role: 'user' }],
      n: 0,
    });
    expect(wrong.body.detail).toContainEqual(
      expect.objectContaining({ loc: ['body', 'messages', '1', 'content'], type: 'missing' }),
    );
    expect(wrong.body.detail).toContainEqual(
      expect.objectContaining({ loc: ['body', 'n'], type: 'greater_than_equal', input: 0, ctx: { ge: 1 } }),
    );
  });

  test('lists have 20 items a page by default, 1 to 100 with a limit, and continue after the last id', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const lines = Array.from({ length: 23 }, () => JSON.stringify(example)).join('\n');
    const { url } = (await call('POST', '/v1/preview/uploads', lines)).body;
    const sft = { model_id: model.id, training_data_url: url, config: { batch_size: 1 } };
    const jobId = (await call('POST', '/v1/preview/sft-training-jobs', sft)).body.id;
    await follow(jobId);
    const path = `/v1/preview/training-jobs/${jobId}/events`;
    const first = (await call('GET', path)).body;
    expect([first.data.length, first.has_more]).toEqual([20, true]);
    expect([first.first_id, first.last_id]).toEqual([first.data[0].id, first.data[19].id]);
    const rest = (await call('GET', `${path}?after=${first.last_id}`)).body;
    expect([rest.data.length, rest.has_more]).toEqual([5, false]);
    expect((await call('GET', `${path}?limit=100`)).body.data).toEqual([...first.data, ...rest.data]);
    expect((await call('GET', `${path}?limit=1&after=`)).body.data).toEqual(first.data.slice(0, 1));
    for (const list of [path, '/v1/preview/models', `/v1/preview/models/${model.id}/checkpoints`]) {
      for (const limit of ['0', '101', '-1', '1.5', 'many', '', '1e1', '0x1'])
        expect(await call('GET', `${list}?limit=${limit}`), limit).toMatchObject({
          status: 422,
          body: { detail: [{ loc: ['query', 'limit'] }] },
        });
      expect(await call('GET', `${list}?after=${unknown}`)).toMatchObject({
        status: 422,
        body: { detail: [{ loc: ['query', 'after'], input: unknown }] },
      });
    }
    const steps = async (order: string) =>
      (await call('GET', `/v1/preview/models/${model.id}/checkpoints?order=${order}`)).body.data.map(
        ({ step }: Json) => step,
      );
    expect([await steps('asc'), await steps('desc')]).toEqual([
      [0, 1],
      [1, 0],
    ]);
    expect((await call('GET', `${path}?order=asc`)).status).toBe(422);
  });

  test('a temporary failure is a 503 with Retry-After', async () => {
    const engine = new ScriptedEngine();
    const { chat: complete } = await start({ engine });
    engine.failGeneration = new EngineError('worker_died', 'the thread is gone');
    const { status, headers, body } = await complete({});
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    expect(body.error).toMatchObject({ type: 'server_error', code: 'worker_died' });
  });
});
