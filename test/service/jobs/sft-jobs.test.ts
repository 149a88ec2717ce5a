import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { door, special, tokensOf } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { open } from '../opened.ts';
import { line, rl, sft } from './support.ts';

const { user, assistant, end } = special;

describe('SFT jobs', () => {
  test('every assistant message trains, batch by batch in order, with the constraint of its line', async () => {
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
    expect(events[1].data).toMatchObject({ learning_rate: 0.1, num_datums: 2, num_trainable_tokens: 20 });
    const [first, second] = engine.trained;
    expect(first).toMatchObject({ loss: { type: 'cross_entropy' }, learningRate: 0.1 });
    expect(second).toMatchObject({
      learningRate: 0.2,
      datums: [{ tokens: tokensOf(user, 'hi', end, assistant, 'c', end) }],
    });
    const [datum] = first?.datums ?? [];
    const reply = tokensOf('so', special.call, 'f{"a":1}', special.callEnd, end);
    expect(datum?.spans.map(({ start: at, length }) => datum.tokens.slice(at, at + length))).toEqual([
      reply,
      tokensOf('done', end),
    ]);
    for (const span of datum?.spans ?? []) {
      expect(span).toMatchObject({ advantage: 1, weight: 1 / 20, sampling: { temperature: 1 } });
      expect(span.logprobs).toEqual(Array.from({ length: span.length }, () => null));
      expect(span.constraint?.grammar.type).toBe('text_or_calls');
    }
    expect((await call('GET', `${rl}/${job.body.id}`)).body).toMatchObject({
      kind: 'sft',
      status: 'succeeded',
      resolved_config: { batch_size: 2, learning_rate: [0.1, 0.2], num_batches: 2 },
    });
  });

  test.each([
    ['auto', [2, 1]],
    [null, [2, 1]],
    [undefined, [2, 1]],
    [3, [3]],
    [1, [1, 1, 1]],
  ])('a batch size of %j trains batches of %j lines', async (batch_size, sizes) => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const upload = await call('POST', '/v1/preview/uploads', [line('a'), line('b'), line('c')].join('\n'));
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { batch_size },
    });
    const events = await follow(job.body.id);
    expect(events[0].data.num_sequences).toBe(sizes.length);
    expect(engine.trained.map(({ datums }) => datums.length)).toEqual(sizes);
    expect(engine.trained.map(({ learningRate }) => learningRate)).toEqual(sizes.map(() => 2e-3));
    expect((await call('GET', `${rl}/${job.body.id}`)).body.resolved_config).toMatchObject({
      batch_size: sizes[0],
      learning_rate: 2e-3,
    });
  });

  test('assistant_turns last trains only the last reply, with the others as context', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const turns = JSON.stringify({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'a' },
        { role: 'user', content: 'and' },
        { role: 'assistant', content: 'b' },
      ],
    });
    const upload = await call('POST', '/v1/preview/uploads', turns);
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { assistant_turns: 'last' },
    });
    expect((await follow(job.body.id)).at(-1).type).toBe('training_ended');
    const [datum] = engine.trained[0]?.datums ?? [];
    expect(datum?.spans).toHaveLength(1);
    const [span] = datum?.spans ?? [];
    expect(datum?.tokens.slice(span?.start)).toEqual(tokensOf('b', end));
    expect(span?.weight).toBe(1 / 2);
    expect((await call('GET', `${rl}/${job.body.id}`)).body.resolved_config).toMatchObject({
      assistant_turns: 'last',
      metric_logging: { enabled: true, target_training_step: null },
    });
  });

  test.each([
    ['all', [0, 1, null], ['b', 'c'], 4],
    ['all', [1, 0, 0], ['a'], 2],
    ['last', [null, 1, 0], ['b'], 2],
  ] as const)(
    'a message with weight 0 is context (assistant_turns %s, weights %j)',
    async (assistant_turns, weights, trained, count) => {
      const { call, createModel, follow, engine } = await start();
      const model = await createModel();
      const replies = weights.map((weight, at) => ({ role: 'assistant', content: 'abc'[at], weight }));
      const messages = replies.flatMap((reply) => [{ role: 'user', content: 'hi' }, reply]);
      const upload = await call('POST', '/v1/preview/uploads', JSON.stringify({ messages }));
      const job = await call('POST', sft, {
        model_id: model.id,
        training_data_url: upload.body.url,
        config: { assistant_turns },
      });
      const events = await follow(job.body.id);
      expect(events[1].data.num_trainable_tokens).toBe(count);
      const { tokens = [], spans = [] } = engine.trained[0]?.datums[0] ?? {};
      expect(spans.map(({ start: at, length }) => tokens.slice(at, at + length))).toEqual(
        trained.map((reply) => tokensOf(reply, end)),
      );
      expect(spans.map(({ weight }) => weight)).toEqual(trained.map(() => 1 / count));
      // The others are there, as the prompt of a later reply has them, and none after the last that trains.
      const turns = ['a', 'b', 'c'].slice(0, 'abc'.indexOf(trained.at(-1) ?? '') + 1);
      expect(tokens).toEqual(turns.flatMap((reply) => tokensOf(user, 'hi', end, assistant, reply, end)));
    },
  );

  describe('metric_logging', () => {
    const prepared = async () => {
      const service = await start();
      const model = await service.createModel();
      const upload = await service.call('POST', '/v1/preview/uploads', line('a'));
      const post = (config: object | null) =>
        service.call('POST', sft, { model_id: model.id, training_data_url: upload.body.url, config });
      const kept = async () => {
        const { body } = await service.call('GET', `/v1/preview/models/${model.id}/checkpoints?order=desc`);
        return body.data[0];
      };
      return { ...service, post, kept };
    };

    test('stores the last figures of the job with its checkpoint, or does not', async () => {
      const { post, follow, kept } = await prepared();
      for (const [metric_logging, are] of [
        [null, true],
        [{}, true],
        [{ enabled: null, target_training_step: null }, true],
        [{ enabled: true }, true],
        [{ enabled: true, target_training_step: 5 }, true],
        [{ enabled: false }, false],
      ] as const) {
        const events = await follow((await post({ metric_logging })).body.id);
        expect(events[1].data.num_datums).toBe(1);
        expect((await kept()).metrics).toEqual(are ? events[1].data : {});
      }
    });

    test('is refused for another step than that of the checkpoint', async () => {
      const { post, follow, engine } = await prepared();
      const under = (target_training_step: number) =>
        post({ metric_logging: { enabled: true, target_training_step } });
      for (const step of [0, 2]) {
        const { status, body } = await under(step);
        expect([step, status]).toEqual([step, 422]);
        expect(body.detail[0].loc.slice(1)).toEqual(['config', 'metric_logging', 'target_training_step']);
      }
      const held = door();
      engine.hold = held.wait;
      const first = await post(null);
      await held.reached;
      expect((await under(3)).body.detail[0].msg).toMatch(/step 1 or 2/);
      const [second, late] = [await under(2), await under(2)];
      held.open();
      const ends = [];
      for (const job of [first, second, late]) ends.push((await follow(job.body.id)).at(-1));
      expect(ends).toMatchObject([
        { type: 'training_ended' },
        { type: 'training_ended', data: { step: 2 } },
        {
          type: 'training_failed',
          data: {
            error_message: expect.stringMatching(
              /target_training_step is 2.*step 3, because more earlier jobs/,
            ),
          },
        },
      ]);
    });

    test('for a step that an earlier job did not create fails the job with the reason', async () => {
      const { call, post, follow, engine } = await prepared();
      const held = door();
      engine.hold = held.wait;
      const first = await post(null);
      await held.reached;
      const second = await post({ metric_logging: { target_training_step: 2 } });
      await call('POST', `${rl}/${first.body.id}/cancel`, {});
      held.open();
      expect((await follow(second.body.id)).at(-1).data.error_message).toMatch(/is 2.*step 1, because fewer/);
    });

    test('is accepted for the step after one that is created while the request is read', async () => {
      const { service, call, createModel } = await open();
      const { store } = service;
      const model = await createModel();
      const upload = await call('POST', '/v1/preview/uploads', line('a'));
      const post = (config: object | null) =>
        call('POST', sft, { model_id: model.id, training_data_url: upload.body.url, config });
      const { promise: mayBegin, resolve: begin } = Promise.withResolvers<void>();
      const beginRun = store.beginRun.bind(store);
      store.beginRun = async (id) => {
        await mayBegin;
        return beginRun(id);
      };
      const first = await post(null);
      const unfinished = store.unfinishedJobsOf.bind(store);
      store.unfinishedJobsOf = async (id) => {
        begin();
        await vi.waitUntil(async () => (await store.job(first.body.id))?.endedAt, { timeout: 30_000 });
        return unfinished(id);
      };
      expect((await post({ metric_logging: { target_training_step: 2 } })).status).toBe(200);
    });
  });

  test('reasoning is trained before its reply, with the effort of the line', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const { answer } = special;
    const thought = (fields: object = {}) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'a' },
          { role: 'user', content: 'and' },
          { role: 'assistant', content: 'b', reasoning_content: 'because' },
        ],
        ...fields,
      });
    const lines = [
      thought(),
      thought({ reasoning_effort: 'low' }),
      line('c', { reasoning_effort: 'medium' }),
      line('e', { reasoning_effort: 'minimal' }),
      line('d', { reasoning_effort: 'none' }),
    ];
    const upload = await call('POST', '/v1/preview/uploads', [...lines, line('d')].join('\n'));
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { batch_size: 6 },
    });
    expect((await follow(job.body.id)).at(-1).type).toBe('training_ended');
    const trained = (engine.trained[0]?.datums ?? []).map(({ tokens, spans }) =>
      spans.map(({ start: at, length, constraint }) => ({
        tokens: tokens.slice(at, at + length),
        reasoning: constraint?.reasoning,
      })),
    );
    const tags = { before: '<think>', close: '</think>', after: '' };
    const two = (limit: number) => [
      { tokens: tokensOf('<think>\n', answer, 'a', end), reasoning: { ...tags, limit } },
      {
        tokens: tokensOf('<think>because\n', answer, 'b', end),
        reasoning: { ...tags, limit },
      },
    ];
    expect(trained).toEqual([
      two(128),
      two(32),
      [{ tokens: tokensOf('<think>\n', answer, 'c', end), reasoning: { ...tags, limit: 64 } }],
      [{ tokens: tokensOf('<think>\n', answer, 'e', end), reasoning: { ...tags, limit: 16 } }],
      [{ tokens: tokensOf('d', end), reasoning: undefined }],
      [{ tokens: tokensOf('d', end), reasoning: undefined }],
    ]);
    expect(engine.trained[0]?.datums[0]?.tokens).toEqual([
      ...tokensOf(user, 'hi', end, assistant, '<think>\n', answer, 'a', end),
      ...tokensOf(user, 'and', end, assistant, '<think>because\n', answer, 'b', end),
    ]);
  });

  test.each(['reasoning', 'reasoning_content'])('%s without an effort is refused', async (name) => {
    const { call } = await start();
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'a', [name]: 'because' },
    ];
    const lines = JSON.stringify({ messages, reasoning_effort: 'none' });
    const { status, body } = await call('POST', '/v1/preview/uploads', lines);
    expect([status, body.detail[0].loc.join('.')]).toEqual([422, 'body.line 1.messages.1']);
    expect(body.detail[0].msg).toContain('leave out reasoning_effort');
  });

  test('a reply with a name, which no sampled reply has, fails the job with its line', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', name: 'bo', content: 'hello' },
    ];
    const upload = await call('POST', '/v1/preview/uploads', JSON.stringify({ messages }));
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    const events = await follow(job.body.id);
    expect(events.at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: expect.stringMatching(/line 1\.messages\.1\.name: .*without a name/) },
    });
  });

  test('token ids outside the vocabulary fail the job with their line', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const broken = JSON.stringify({ messages: [{ role: 'assistant', content: 'x', token_ids: [1, 999] }] });
    const upload = await call('POST', '/v1/preview/uploads', `${line('a')}\n${broken}`);
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    expect((await follow(job.body.id)).at(-1).data.error_message).toMatch(
      /line 2\.messages\.0\.token_ids\.1.*0 to 267/,
    );
  });

  test.each([
    ['response_format', { response_format: { type: 'json_object' } }, { type: 'json_object' }],
    [
      'structured_outputs',
      { structured_outputs: { choice: ['yes', 'no'] } },
      { type: 'choice', choices: ['yes', 'no'] },
    ],
  ])('%s of a line constrains its replies in training', async (_name, fields, grammar) => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const upload = await call('POST', '/v1/preview/uploads', line('yes', fields));
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    await follow(job.body.id);
    expect(engine.trained[0]?.datums[0]?.spans[0]?.constraint).toEqual({
      grammar,
    });
  });

  test('tool_choice and parallel_tool_calls of a line are part of the constraint', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const allowed_tools = { mode: 'required', tools };
    const lines = [
      { tools, tool_choice: 'none' },
      { tools, parallel_tool_calls: false },
      { tools, tool_choice: 'required' },
      { tools, tool_choice: { type: 'allowed_tools', allowed_tools } },
    ].map((fields) => line('yes', fields));
    const upload = await call('POST', '/v1/preview/uploads', lines.join('\n'));
    const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
    await follow(job.body.id);
    const datums = engine.trained.flatMap((batch) => batch.datums);
    const calls = { type: 'named_json', written: { between: '' } };
    expect(datums.map((datum) => datum.spans[0]?.constraint?.grammar)).toMatchObject([
      { type: 'text' },
      { type: 'text_or_calls', calls: { written: { between: null } } },
      calls,
      calls,
    ]);
  });

  test('several clients may upload the same data at the same time', async () => {
    const { call, dataFolder } = await start();
    const body = Array.from({ length: 500 }, () => line('the same')).join('\n');
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => call('POST', '/v1/preview/uploads', body)),
    );
    const url = `upload:sha256-${answers[0]?.body.sha256}`;
    expect(answers.map((answer) => [answer.status, answer.body.url])).toEqual(answers.map(() => [200, url]));
    expect(readdirSync(join(dataFolder, 'uploads'))).toEqual([`${answers[0]?.body.sha256}.jsonl`]);
  });

  test('an upload with an invalid line is refused with its number', async () => {
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
    expect(
      (await upload(line('a', { response_formt: { type: 'json_object' } }))).body.detail[0],
    ).toMatchObject({
      loc: ['body', 'line 1', 'response_formt'],
      type: 'extra_forbidden',
    });
    expect((await upload(line('a', { weight: null }))).status).toBe(200);
  });

  const [asked, told] = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ];

  test.each<[string, object, string]>([
    [
      'conversations',
      { conversations: [{ from: 'human', value: 'a' }] },
      "ShareGPT's form: write `messages`",
    ],
    ['instruction', { instruction: 'a', input: '', output: 'b' }, "Alpaca's form: write `messages`"],
    ['prompt', { prompt: 'a', completion: 'b' }, 'a prompt and its completion: write `messages`'],
    ['text', { text: 'a' }, 'a text without roles: write `messages`'],
    ['chosen', { messages: [asked, told], chosen: [told], rejected: [told] }, 'a pair of replies'],
    ['functions', { messages: [asked, told], functions: [{ name: 'f' }] }, 'write `tools`'],
    ['tools', { messages: [asked, told], tools: '[]' }, 'write the list itself'],
    ['messages.0.weight', { messages: [{ ...asked, weight: 1 }, told] }, 'is for assistant messages'],
    ['messages.1.weight', { messages: [asked, { ...told, weight: 0.5 }] }, 'must be 0 (context alone) or 1'],
    ['messages.1.weight', { messages: [asked, { ...told, weight: true }] }, 'must be 0 (context alone) or 1'],
    ['messages', { messages: [asked, { ...told, weight: 0 }] }, 'leave the line out, or give one of them'],
  ])(
    'a line in the form of other programs is refused with its remedy: %s %j',
    async (field, example, remedy) => {
      const { call } = await start();
      const { status, body } = await call('POST', '/v1/preview/uploads', JSON.stringify(example));
      expect(status).toBe(422);
      expect(body.detail).toHaveLength(1);
      expect(body.detail[0].loc.join('.')).toBe(`body.line 1.${field}`);
      expect(body.detail[0].msg).toContain(remedy);
    },
  );

  test.each([
    [{ config: { learning_rate: [1, 2, 3] } }, /3 values for 1 batches/],
    [{ config: { batch: 1 } }, /Extra inputs/],
    [{ config: { assistant_turns: 'first' } }, /"all"\|"last"/],
    [{ config: { metric_logging: { enable: true } } }, /Extra inputs/],
    [{ experimental_config: { lora: 1 } }, /lora/],
    [{ training_data_url: `upload:sha256-${'0'.repeat(64)}` }, /no such upload/],
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
