import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { trainingEventSchema, trainingJobSchema } from '../../src/contract/index.ts';
import { door, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { choice, group, type Json, start, trajectory } from './harness.ts';

const { user, assistant, end, call: callToken, tool } = special;
const sampled = tokensOf('yes', end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const unknown = '00000000-0000-4000-8000-000000000000';
const rl = '/v1/preview/training-jobs';
const sft = '/v1/preview/sft-training-jobs';

const line = (reply: string, fields: object = {}) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
    ...fields,
  });

describe('RL jobs', () => {
  test('a job trains one step over the batch, and its checkpoint can be listed when it has ended', async () => {
    const { call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    const created = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [...groups, group(trajectory(3, sampled), trajectory(3, sampled))],
      experimental_config: { kimi_k2_tau: 0.5, epsilon_high: null, ppo: null, kl_penalty_coef: null },
    });
    expect(created.status).toBe(200);
    const events = await follow(created.body.id);
    for (const event of events) trainingEventSchema.parse(event);
    expect(events.map(({ type }) => type)).toEqual(['training_started', 'gradient_step', 'training_ended']);
    expect(events[0].data).toEqual({ num_sequences: 1 });
    expect(events[1].data).toEqual({
      ...{ loss: 1, grad_norm: 0.5, learning_rate: 1e-3 },
      ...{ num_groups_submitted: 2, num_groups_trainable: 1, num_trajectories: 4, num_trainable_tokens: 8 },
      ...{ num_datums: 2, train_tokens: 18, reward: 1.75, reward_std_dev: 0.25 },
    });
    expect(events[2].data.step).toBe(1);
    const job = (await call('GET', `${rl}/${created.body.id}`)).body;
    expect(trainingJobSchema.parse(job)).toMatchObject({
      ...{
        id: created.body.id,
        model_id: model.id,
        kind: 'rl',
        status: 'succeeded',
        step: 1,
        error_message: null,
      },
      resolved_config: { vendor_k2_tau: 0.5, learning_rate: 1e-3, epsilon: 1, epsilon_high: 4, ppo: false },
    });
    const checkpoints = (await call('GET', `/v1/preview/models/${model.id}/checkpoints?order=desc`)).body;
    expect(checkpoints.data[0]).toEqual({
      id: events[2].data.checkpoint_id,
      step: 1,
      metrics: events[1].data,
    });
    expect(
      await readFile(join(dataFolder, 'models', model.id, 'checkpoints', 'step-1', 'weights'), 'utf8'),
    ).toBe('base + 1');
    expect(engine.trained[0]).toMatchObject({
      learningRate: 1e-3,
      loss: { type: 'cispo', tau: 0.5, epsilonHigh: 4 },
    });
    expect(readdirSync(join(dataFolder, 'jobs'))).toEqual([]);
  });

  test('every sampled token and nothing else is in a span, as it was sampled, under its distribution', async () => {
    const { call, chat, createModel, follow, engine } = await start();
    const model = await createModel();
    const wide = 260;
    const first = [wide, ...tokensOf(callToken, 'f{}', end)];
    engine.replies = [{ tokens: first }];
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const answer = await chat({ tools, temperature: 0.7, top_k: 5, logprobs: true, return_token_ids: true });
    const second = tokensOf('done', end);
    const third = tokensOf('cut off');
    const trained = {
      messages_and_choices: [
        { role: 'user', content: 'hi' },
        answer.body.choices[0],
        { role: 'tool', content: 'ok', tool_call_id: 'c' },
        choice(second, { logprobs: null, sampling: null }),
        { role: 'user', content: 'trailing context trains nothing' },
      ],
      tools: null,
      additional_histories: [
        { messages_and_choices: [{ role: 'assistant', content: 'said', token_ids: null }, choice(third)] },
        { messages_and_choices: [{ role: 'user', content: 'no choice here' }] },
      ],
      reward: 1,
    };
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group(trained, trajectory(0, sampled))],
    });
    await follow(job.body.id);
    const [main, other] = engine.trained[0]?.datums ?? [];
    expect(main?.tokens).toEqual([
      ...tokensOf(user, 'hi', end, assistant),
      ...first,
      ...tokensOf(tool, 'ok', end, assistant),
      ...second,
    ]);
    const [one, two] = main?.spans ?? [];
    expect(main?.tokens.slice(one?.start, (one?.start ?? 0) + (one?.length ?? 0))).toEqual(first);
    expect(main?.tokens.slice(two?.start, (two?.start ?? 0) + (two?.length ?? 0))).toEqual(second);
    expect(one).toMatchObject({
      logprobs: first.map((_, index) => -(index + 1) / 8),
      sampling: { temperature: 0.7, topP: 1, topK: 5, minP: 0 },
      constraint: engine.requests[0]?.constraint,
    });
    expect(one?.constraint).not.toBeNull();
    expect(two).toMatchObject({
      logprobs: second.map(() => null),
      sampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
      constraint: null,
    });
    expect(other?.tokens).toEqual(tokensOf(assistant, 'said', end, assistant, 'cut off'));
    expect(other?.spans).toMatchObject([
      { start: 7, length: third.length, logprobs: [-1, -2, -3, -4, -5, -6, -7] },
    ]);
    expect(one?.advantage).toBeCloseTo(1, 4);
    const weights = (engine.trained[0]?.datums ?? []).flatMap(({ spans }) =>
      spans.map((s) => s.weight * s.length),
    );
    expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 10);
  });

  test('a batch without a signal fails with the reason, and makes no checkpoint', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group(trajectory(1, sampled), trajectory(1, sampled))],
    });
    const events = await follow(job.body.id);
    expect(events).toMatchObject([
      { type: 'training_failed', data: { error_message: expect.stringContaining('Nothing to train on') } },
    ]);
    expect((await call('GET', `${rl}/${job.body.id}`)).body).toMatchObject({
      status: 'failed',
      step: null,
      error_message: events[0].data.error_message,
    });
    expect((await call('GET', `/v1/preview/models/${model.id}/checkpoints`)).body.data).toHaveLength(1);
  });

  test.each([
    ['no token ids', choice(sampled, { token_ids: null }), 'token_ids', /return_token_ids/],
    ['a token out of the vocabulary', choice([9999]), 'token_ids.0', /0 to 263/],
    [
      'log-probabilities of other tokens',
      choice(sampled, { logprobs: { content: [] } }),
      'logprobs.content',
      /0 entries for 4/,
    ],
    [
      'an unknown constraint',
      choice(sampled, { sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: 'sha256-0' } }),
      'sampling.constraint',
      /nothing was sampled/,
    ],
  ])('a choice with %s is refused by its place', async (_name, broken, place, reason) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const { status, body } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group({ messages_and_choices: [broken], reward: 1 })],
    });
    expect(status).toBe(422);
    expect(body.detail[0].loc.join('.')).toBe(
      `body.trajectory_groups.0.trajectories.0.messages_and_choices.0.${place}`,
    );
    expect(body.detail[0].msg).toMatch(reason);
  });

  test.each([
    [{ kl_penalty_coef: 0.1 }, 'kl_penalty_coef', 'unsupported_field'],
    [{ loss_fn: 'ppo' }, 'loss_fn', 'unsupported_field'],
    [{ learning_rat: 1 }, 'learning_rat', 'extra_forbidden'],
    [{ learning_rate: -1 }, 'learning_rate', 'greater_than'],
    [{ kimi_k2_tau: 1, vendor_k2_tau: 1 }, 'kimi_k2_tau', 'unsupported_field'],
  ])('the config %j is refused by name', async (config, name, type) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const { status, body } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: config,
    });
    expect(status).toBe(422);
    const loc = body.detail[0].loc.filter((part: string) => part !== 'experimental_config');
    expect([loc, body.detail[0].type]).toEqual([['body', name], type]);
  });

  test('jobs of unknown models, and unknown jobs, are 404', async () => {
    const { call } = await start();
    for (const [method, path, body] of [
      ['POST', rl, { model_id: unknown, trajectory_groups: groups }],
      ['GET', `${rl}/${unknown}`],
      ['GET', `${rl}/${unknown}/events`],
      ['POST', `${rl}/${unknown}/cancel`, {}],
      ['POST', `/v1/preview/models/${unknown}/log`, { split: 'train', trajectory_groups: [] }],
      ['POST', sft, { model_id: unknown, training_data_url: 'upload:x' }],
    ] as const) {
      const answer = await call(method, path, body);
      expect([method, path, answer.status, typeof answer.body.detail]).toEqual([method, path, 404, 'string']);
    }
    expect((await call('POST', rl, { model_id: 'x', trajectory_groups: groups })).body.detail[0].loc).toEqual(
      ['body', 'model_id'],
    );
  });
});

describe('the queue', () => {
  test('runs jobs one at a time in their order, each on the checkpoint of the one before', async () => {
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

  test('cancels a queued and a running job; an ended one is in conflict', async () => {
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

  test('an engine that fails ends the job with its words, and the next job runs', async () => {
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

describe('events', () => {
  test('pages and the stream show the same events, and both go on after an id', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const upload = await call(
      'POST',
      '/v1/preview/uploads',
      [1, 2, 3, 4].map((n) => line(`r${n}`)).join('\n'),
    );
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { batch_size: 1 },
    });
    const events = await follow(job.body.id);
    expect(events).toHaveLength(6);
    const seen: Json[] = [];
    let after = '';
    for (;;) {
      const { body } = await call('GET', `${rl}/${job.body.id}/events?limit=4&after=${after}`);
      seen.push(...body.data);
      after = body.last_id;
      if (!body.has_more) break;
    }
    expect(seen).toEqual(events);
    const resumed = await follow(job.body.id, { 'last-event-id': events[2].id });
    expect(resumed).toEqual(events.slice(3));
    expect(await follow(job.body.id, { 'last-event-id': events[5].id })).toEqual([]);
    expect((await call('GET', `${rl}/${job.body.id}/events?after=${unknown}`)).status).toBe(422);
    const foreign = { accept: 'text/event-stream', 'last-event-id': unknown };
    expect((await call('GET', `${rl}/${job.body.id}/events`, undefined, foreign)).status).toBe(422);
  });

  test('the stream tells of events as they happen', async () => {
    const { call, createModel, raw, engine } = await start();
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    let text = '';
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString('utf8');
      if (text.includes('training_started')) held.open();
    }
    const ids = [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id);
    const told = [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data ?? ''));
    expect(told.map(({ id }) => id)).toEqual(ids);
    expect(told.at(-1).type).toBe('training_ended');
  });

  test('a stream that is open ends when the model is deleted', async () => {
    const { call, createModel, raw, engine } = await start();
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    await held.reached;
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    await call('DELETE', `/v1/preview/models/${model.id}`);
    expect(await response.text()).toContain('training_started');
  });

  test('a stream that is open ends when the service closes', async () => {
    const engine = new ScriptedEngine();
    const { call, createModel, raw, service } = await start({ engine });
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    await held.reached;
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    const [text] = await Promise.all([response.text(), service.close()]);
    expect(text).toContain('training_started');
  });
});

describe('SFT jobs', () => {
  test('every assistant message trains, batch by batch in order, under the constraint of its line', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const withCall = JSON.stringify({
      tools,
      messages: [
        { role: 'user', content: 'hi' },
        {
          role: 'assistant',
          content: 'so',
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{ "a": 1 }' } }],
        },
        { role: 'tool', content: 'ok', tool_call_id: 'c' },
        { role: 'assistant', content: 'done' },
      ],
    });
    const body = `${withCall}\n\n${line('b')}\n${line('c')}\n`;
    const upload = await call('POST', '/v1/preview/uploads', body);
    expect(upload.body).toMatchObject({
      url: `upload:sha256-${upload.body.sha256}`,
      bytes: Buffer.byteLength(body),
    });
    expect((await call('POST', '/v1/preview/uploads', body)).body).toEqual(upload.body);
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { learning_rate: [0.1, 0.2], batch_size: null },
    });
    const events = await follow(job.body.id);
    expect(events.map(({ type }) => type)).toEqual([
      ...['training_started', 'gradient_step', 'gradient_step', 'training_ended'],
    ]);
    expect(events[0].data.num_sequences).toBe(2);
    expect(events[1].data).toMatchObject({ learning_rate: 0.1, num_datums: 2, num_trainable_tokens: 19 });
    const [first, second] = engine.trained;
    expect(first).toMatchObject({ loss: { type: 'cross_entropy' }, learningRate: 0.1 });
    expect(second).toMatchObject({
      learningRate: 0.2,
      datums: [{ tokens: tokensOf(user, 'hi', end, assistant, 'c', end) }],
    });
    const [datum] = first?.datums ?? [];
    const reply = tokensOf('so', callToken, 'f{"a":1}', end);
    expect(datum?.spans.map(({ start: at, length }) => datum.tokens.slice(at, at + length))).toEqual([
      reply,
      tokensOf('done', end),
    ]);
    for (const span of datum?.spans ?? []) {
      expect(span).toMatchObject({ advantage: 1, weight: 1 / 19, sampling: { temperature: 1 } });
      expect(span.logprobs).toEqual(Array.from({ length: span.length }, () => null));
      expect(span.constraint?.branches).toHaveLength(2);
    }
    expect((await call('GET', `${rl}/${job.body.id}`)).body).toMatchObject({
      kind: 'sft',
      status: 'succeeded',
      resolved_config: { batch_size: 2, learning_rate: [0.1, 0.2], num_batches: 2 },
    });
  });

  test('the same data may be uploaded by several at once', async () => {
    const { call, dataFolder } = await start();
    const body = Array.from({ length: 500 }, () => line('the same')).join('\n');
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => call('POST', '/v1/preview/uploads', body)),
    );
    const url = `upload:sha256-${answers[0]?.body.sha256}`;
    expect(answers.map((answer) => [answer.status, answer.body.url])).toEqual(answers.map(() => [200, url]));
    expect(readdirSync(join(dataFolder, 'uploads'))).toEqual([`${answers[0]?.body.sha256}.jsonl`]);
  });

  test('an upload with a broken line is refused with its number', async () => {
    const { call } = await start();
    const upload = (body: string) => call('POST', '/v1/preview/uploads', body);
    const broken = await upload(`${line('a')}\n{"messages":[{"role":"user","content":"x"}]}`);
    expect(broken.status).toBe(422);
    expect(broken.body.detail[0]).toMatchObject({
      loc: ['body', 'line 2', 'messages'],
      msg: 'line 2: the last message must be an assistant message',
    });
    expect((await upload('{"messages"')).body.detail[0]).toMatchObject({ type: 'json_invalid' });
    expect((await upload('\n')).status).toBe(422);
  });

  test.each([
    [{ config: { learning_rate: [1, 2, 3] } }, /3 values for 1 batches/],
    [{ config: { batch: 1 } }, /Extra inputs/],
    [{ experimental_config: { lora: 1 } }, /lora/],
    [{ training_data_url: 'https://example.com/train.jsonl' }, /not fetched/],
    [{ training_data_url: `upload:sha256-${'0'.repeat(64)}` }, /nothing was uploaded/],
  ])('%j is refused', async (fields, reason) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const upload = await call('POST', '/v1/preview/uploads', line('a'));
    const { status, body } = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      ...fields,
    });
    expect([status, body.detail[0].msg]).toEqual([422, expect.stringMatching(reason)]);
  });

  test('a demonstration outside its grammar fails the job with its lines', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const upload = await call('POST', '/v1/preview/uploads', `${line('a')}\n${line('impossible')}`);
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    const events = await follow(job.body.id);
    expect(events.at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: 'lines 1 to 2: the reply does not follow its constraint' },
    });
  });
});

describe('a choice that a client wrote down', () => {
  // As the vendor's client dumps its objects, with and without `exclude_none`.
  test.each([
    [
      'with null for what is not there',
      { content: 'yes', tool_calls: null, refusal: null, function_call: null },
    ],
    ['without what is not there', {}],
  ])('%s is taken', async (_, message) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const dumped = choice(sampled, { message: { role: 'assistant', ...message }, logprobs: {} });
    const messages_and_choices = [{ role: 'user', content: 'hi' }, dumped];
    const trajectories = [
      { messages_and_choices, reward: 1 },
      { messages_and_choices, reward: 0 },
    ];
    const { status, body } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [{ trajectories }],
    });
    expect([status, body]).toEqual([200, { id: expect.any(String) }]);
  });
});

describe('log', () => {
  test('groups are kept as they came, in one readable file for each split', async () => {
    const { call, createModel, dataFolder } = await start();
    const model = await createModel();
    const path = `/v1/preview/models/${model.id}/log`;
    const body = {
      model_id: model.id,
      split: 'train',
      trajectory_groups: [{ ...groups[0], colour: 'kept' }],
    };
    const answers = await Promise.all([
      call('POST', path, body),
      call('POST', path, body),
      call('POST', path, body),
    ]);
    for (const answer of answers)
      expect(answer.body).toEqual({ split: 'train', num_groups: 1, num_trajectories: 2 });
    await call('POST', path, { ...body, split: '../val' });
    const logs = join(dataFolder, 'models', model.id, 'logs');
    expect(readdirSync(logs).sort()).toEqual(['..%2Fval.jsonl.gz', 'train.jsonl.gz']);
    const text = (await promisify(gunzip)(await readFile(join(logs, 'train.jsonl.gz')))).toString('utf8');
    expect(
      text
        .trim()
        .split('\n')
        .map((entry) => JSON.parse(entry).colour),
    ).toEqual(['kept', 'kept', 'kept']);
    expect((await call('POST', path, { ...body, model_id: unknown })).status).toBe(422);
    expect((await call('POST', path, { ...body, split: '' })).status).toBe(422);
  });
});
