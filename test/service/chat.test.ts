import { describe, expect, test } from 'vitest';
import { chatCompletionSchema } from '../../src/contract/index.ts';
import { door, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { group, start, trajectory } from './harness.ts';

const tools = [
  {
    type: 'function',
    function: {
      name: 'refund',
      description: 'gives money back',
      parameters: { type: 'object', properties: { order: { type: 'string' } } },
    },
  },
  { type: 'function', function: { name: 'track' } },
];

describe('chat completions', () => {
  test('a plain reply, in the contract, with its sampling and the name of the weights', async () => {
    const { chat, engine } = await start();
    const { status, body } = await chat({
      model: 'scripted-tiny',
      temperature: null,
      request_id: 'r1',
      user: 'u',
    });
    expect(status).toBe(200);
    expect(chatCompletionSchema.parse(body)).toEqual(body);
    expect(body).toMatchObject({
      id: 'chatcmpl-r1',
      object: 'chat.completion',
      model: 'scripted-tiny',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'hello' },
          finish_reason: 'stop',
          stop_reason: null,
          logprobs: null,
          sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null },
        },
      ],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 6,
        total_tokens: 11,
        prompt_tokens_details: { cached_tokens: 3 },
      },
    });
    expect(body.choices[0]).not.toHaveProperty('token_ids');
    expect(engine.requests[0]).toMatchObject({
      prompt: tokensOf(special.user, 'hi', special.end, special.assistant),
      constraint: null,
      maxTokens: 512 - 5,
      weights: { baseModel: 'scripted-tiny', folder: null },
    });
  });

  test('the sampling parameters reach the engine', async () => {
    const { chat, engine } = await start();
    await chat({
      temperature: 0.5,
      top_p: 0.9,
      top_k: -1,
      min_p: 0.1,
      n: 2,
      seed: 41,
      stop: 'x',
      stop_token_ids: [7],
      max_tokens: 9,
      logprobs: true,
      top_logprobs: 4,
    });
    expect(engine.requests.map(({ seed }) => seed)).toEqual([41, 42]);
    expect(engine.requests[0]).toMatchObject({
      sampling: { temperature: 0.5, topP: 0.9, topK: 0, minP: 0.1 },
      stopStrings: ['x'],
      stopTokens: [7],
      maxTokens: 9,
      topLogprobs: 4,
    });
    await chat({ seed: 2 ** 63, n: 2 });
    expect(engine.requests.slice(2).map(({ seed }) => seed)).toEqual([2n ** 63n, 2n ** 63n + 1n]);
    await chat({ max_completion_tokens: 4, max_tokens: 9, stop: ['a', 'b'] });
    expect(engine.requests[4]).toMatchObject({ maxTokens: 4, stopStrings: ['a', 'b'] });
  });

  test('log-probabilities and token ids come when asked for, one for each token', async () => {
    const { chat } = await start();
    const { body } = await chat({ logprobs: true, top_logprobs: 1, return_token_ids: true });
    const [choice] = body.choices;
    expect(choice.token_ids).toEqual(tokensOf('hello', special.end));
    expect(body.prompt_token_ids).toEqual(tokensOf(special.user, 'hi', special.end, special.assistant));
    expect(choice.logprobs.content).toHaveLength(6);
    expect(choice.logprobs.content[0]).toEqual({
      token: 'h',
      logprob: -0.125,
      bytes: [104],
      top_logprobs: [{ token: 'h', logprob: -0.125, bytes: [104] }],
    });
    expect(choice.logprobs.content[5]).toMatchObject({ token: '<|end|>', bytes: [] });
  });

  test('a call is read from its tokens, and the grammar it was sampled under is named', async () => {
    const { chat, engine } = await start();
    engine.replies = [
      { tokens: tokensOf(special.call, 'refund{"order":"48"}', special.call, 'track{}', special.end) },
    ];
    const { body } = await chat({ tools });
    const [choice] = body.choices;
    expect(choice).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: null,
        tool_calls: [
          {
            id: expect.stringMatching(/^call_\w+$/),
            type: 'function',
            function: { name: 'refund', arguments: '{"order":"48"}' },
          },
          { type: 'function', function: { name: 'track', arguments: '{}' } },
        ],
      },
    });
    expect(choice.sampling.constraint).toMatch(/^sha256-[0-9a-f]{64}$/);
    expect(engine.requests[0]?.constraint).toEqual({
      branches: [
        { open: null, grammar: { type: 'text' }, repeat: false },
        {
          open: special.call,
          grammar: {
            type: 'named_json',
            alternatives: [
              { name: 'refund', schema: tools[0]?.function.parameters },
              { name: 'track', schema: { type: 'object', properties: {} } },
            ],
          },
          repeat: true,
        },
      ],
    });
  });

  test.each([
    ['required', { tool_choice: 'required' }, 1, 2],
    ['a named function', { tool_choice: { type: 'function', function: { name: 'track' } } }, 1, 1],
    ['none', { tool_choice: 'none' }, 1, 0],
    ['auto', { tool_choice: 'auto', parallel_tool_calls: false }, 2, 2],
  ])('tool_choice %s says which branches there are', async (_name, fields, branches, alternatives) => {
    const { chat, engine } = await start();
    expect((await chat({ tools, ...fields })).status).toBe(200);
    const constraint = engine.requests[0]?.constraint;
    expect(constraint?.branches).toHaveLength(branches);
    const call = constraint?.branches.find(({ open }) => open === special.call);
    expect(call?.grammar.type === 'named_json' ? call.grammar.alternatives.length : 0).toBe(alternatives);
    if (call) expect(call.repeat).toBe(!('parallel_tool_calls' in fields));
  });

  test.each([
    [{ response_format: { type: 'json_object' } }, { type: 'json_object' }],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } } },
      { type: 'json_schema', schema: { type: 'object' } },
    ],
    [{ structured_outputs: { choice: ['a', 'b'] } }, { type: 'choice', choices: ['a', 'b'] }],
    [{ structured_outputs: { regex: '[0-9]+' } }, { type: 'regex', pattern: '[0-9]+' }],
    [
      { structured_outputs: { json: '{"type":"string"}' } },
      { type: 'json_schema', schema: { type: 'string' } },
    ],
    [{ structured_outputs: { json_object: true, json: null } }, { type: 'json_object' }],
  ])('%j constrains the text', async (fields, grammar) => {
    const { chat, engine } = await start();
    expect((await chat(fields)).status).toBe(200);
    expect(engine.requests[0]?.constraint).toEqual({ branches: [{ open: null, grammar, repeat: false }] });
  });

  test('a stop string ends the text before it; the token ids stay whole', async () => {
    const { chat, engine } = await start();
    engine.replies = [{ tokens: tokensOf('one END'), stop: 'END' }];
    const { body } = await chat({ stop: ['END'], return_token_ids: true });
    expect(body.choices[0]).toMatchObject({
      message: { content: 'one ' },
      finish_reason: 'stop',
      stop_reason: 'END',
    });
    expect(body.choices[0].token_ids).toEqual(tokensOf('one END'));
  });

  test('a reply that is cut off says so', async () => {
    const { chat } = await start();
    const { body } = await chat({ max_tokens: 3 });
    expect(body.choices[0]).toMatchObject({ message: { content: 'hel' }, finish_reason: 'length' });
  });

  test('the newest checkpoint answers, or the pinned one; an unknown name is 404 and never the base model', async () => {
    const { chat, call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    expect((await chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step0');
    const tokens = tokensOf('yes', special.end);
    const job = await call('POST', '/v1/preview/training-jobs', {
      model_id: model.id,
      trajectory_groups: [group(trajectory(1, tokens), trajectory(0, tokens))],
    });
    await follow(job.body.id);
    expect((await chat({ model: 'wandb-artifact:///local/desk/agent' })).body.model).toBe(
      'local/desk/agent:step1',
    );
    expect(engine.requests.at(-1)?.weights).toEqual({
      baseModel: 'scripted-tiny',
      folder: `${dataFolder}/models/${model.id}/checkpoints/step-1`,
    });
    expect((await chat({ model: 'local/desk/agent:step0' })).body.model).toBe('local/desk/agent:step0');
    const asked = engine.requests.length;
    for (const name of ['local/desk/agent:step9', 'local/desk/other', 'gpt-9', '']) {
      const { status, body } = await chat({ model: name });
      expect([name, status]).toEqual([name, 404]);
      expect(body.error).toMatchObject({ type: 'not_found_error', code: 'model_not_found' });
      expect(body.detail).toContain(JSON.stringify(name));
    }
    expect(engine.requests).toHaveLength(asked);
    await call('DELETE', `/v1/preview/models/${model.id}`);
    expect((await chat({ model: 'local/desk/agent' })).status).toBe(404);
  });

  test('a client that goes away stops its generation', async () => {
    const engine = new ScriptedEngine();
    const { service } = await start({ engine });
    const held = door();
    engine.hold = held.wait;
    const leave = new AbortController();
    const asked = fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer test-key' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
      signal: leave.signal,
    });
    await held.reached;
    const stopped = new Promise((resolve) => engine.requests[0]?.signal?.addEventListener('abort', resolve));
    leave.abort();
    await expect(asked).rejects.toThrow();
    await stopped;
  });
});

describe('what chat completions refuse', () => {
  test.each([
    [{ priority: 3 }, 'priority'],
    [{ frequency_penalty: 0.5 }, 'frequency_penalty'],
    [{ logit_bias: { 5: 1 } }, 'logit_bias'],
    [{ use_beam_search: true }, 'use_beam_search'],
    [{ echo: true }, 'echo'],
    [{ min_tokens: 2 }, 'min_tokens'],
    [{ chat_template: 'x' }, 'chat_template'],
    [{ add_generation_prompt: false }, 'add_generation_prompt'],
    [{ vllm_xargs: { a: 1 } }, 'engine_xargs'],
    [{ structured_outputs: { grammar: 'root ::= "a"' } }, 'structured_outputs.grammar'],
    [{ stream_options: { continuous_usage_stats: true } }, 'stream_options.continuous_usage_stats'],
    [{ temprature: 1 }, 'temprature'],
    [{ top_logprobs: 3 }, 'top_logprobs'],
    [{ stop: [''] }, 'stop'],
    [{ seed: 1.5 }, 'seed'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ tools, tool_choice: { type: 'function', function: { name: 'nope' } } }, 'tool_choice.function.name'],
    [{ temperature: 3 }, 'temperature'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
    [{ messages: [{ role: 'critic', content: 'x' }] }, 'messages.0.role'],
    [{ messages: [{ role: 'assistant', content: 'x', token_ids: [9999] }] }, 'messages.0.token_ids.0'],
    [{ response_format: { type: 'json_object' }, structured_outputs: { regex: 'a' } }, 'structured_outputs'],
  ])('%j is refused by name', async (fields, name) => {
    const { chat, engine } = await start();
    const { status, body } = await chat(fields);
    expect(status).toBe(422);
    expect(body.detail[0].loc.slice(1).join('.')).toBe(name);
    expect(body.detail[0]).toMatchObject({ msg: expect.any(String), type: expect.any(String) });
    expect(body.error).toMatchObject({ type: 'invalid_request_error', param: name, code: 'invalid_request' });
    expect(engine.requests).toHaveLength(0);
  });

  test('values that ask for nothing are taken', async () => {
    const { chat } = await start();
    const { status } = await chat({
      ...{ priority: 0, echo: false, frequency_penalty: 0, presence_penalty: 0, repetition_penalty: 1 },
      ...{ add_generation_prompt: true, skip_special_tokens: true, logit_bias: {}, bad_words: [], stop: [] },
      ...{
        chat_template: null,
        engine_xargs: null,
        stream: false,
        store: false,
        metadata: { a: 'b' },
        unknown: null,
      },
    });
    expect(status).toBe(200);
  });

  test('what the engine cannot constrain is 422 with its own words', async () => {
    const { chat } = await start();
    const { status, body } = await chat({ structured_outputs: { regex: '(?=a)' } });
    expect([status, body.detail]).toEqual([422, 'regex: lookahead is not supported in (?=a)']);
  });

  test('a prompt longer than the context is refused with both lengths', async () => {
    const { chat } = await start();
    const { status, body } = await chat({ messages: [{ role: 'user', content: 'x'.repeat(600) }] });
    expect(status).toBe(400);
    expect(body.detail).toContain('603');
    expect(body.detail).toContain('512');
    expect(body.error.code).toBe('context_length_exceeded');
  });

  test('a body nested beyond all measure is 422', async () => {
    const { call } = await start();
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const body = `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":${deep}}}}]}`;
    expect((await call('POST', '/v1/chat/completions', body)).status).toBe(422);
  });

  test('malformed JSON is 422, a body over the limit 413', async () => {
    const { call, service } = await start({ bodyLimits: { chat: 1000 } });
    const malformed = await call('POST', '/v1/chat/completions', '{"messages": [');
    expect(malformed).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body'], type: 'json_invalid' }] },
    });
    const notAnObject = await call('POST', '/v1/chat/completions', '[]');
    expect(notAnObject).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body'], type: 'dict_type' }] },
    });
    expect((await call('POST', '/v1/chat/completions', 'x'.repeat(1001))).status).toBe(413);
    const chunked = await fetch(`${service.url}/v1/chat/completions/`, {
      method: 'POST',
      headers: { authorization: 'Bearer test-key' },
      body: new Blob(['x'.repeat(2000)]).stream(),
      duplex: 'half',
    });
    expect(chunked.status).toBe(413);
  });
});
