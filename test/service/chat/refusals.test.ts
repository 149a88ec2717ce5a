import { expect, test } from 'vitest';
import { special } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

const tools = [
  { type: 'function', function: { name: 'refund' } },
  { type: 'function', function: { name: 'track' } },
];
const named = (name: string) => ({ type: 'function', function: { name } });
const allowed = (mode: string, ...names: string[]) => ({
  type: 'allowed_tools',
  allowed_tools: { mode, tools: names.map(named) },
});
const biases = Object.fromEntries(Array.from({ length: 1025 }, (_, token) => [token, 1]));

test.each<[string, [object, string][]]>([
  [
    'values out of range',
    [
      [{ temperature: 3 }, 'temperature'],
      [{ temperature: -0.1 }, 'temperature'],
      [{ top_p: 0 }, 'top_p'],
      [{ top_k: -2 }, 'top_k'],
      [{ min_p: 1.1 }, 'min_p'],
      [{ frequency_penalty: 2.1 }, 'frequency_penalty'],
      [{ presence_penalty: -2.1 }, 'presence_penalty'],
      [{ repetition_penalty: 0 }, 'repetition_penalty'],
      [{ repetition_penalty: 101 }, 'repetition_penalty'],
      [{ use_beam_search: true, length_penalty: 11 }, 'length_penalty'],
      [{ n: 129 }, 'n'],
      [{ n: 0 }, 'n'],
      [{ seed: 1.5 }, 'seed'],
      [{ seed: 1e19 }, 'seed'],
      [{ max_completion_tokens: 0 }, 'max_completion_tokens'],
      [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs'],
      [{ prompt_logprobs: 21 }, 'prompt_logprobs'],
      [{ prompt_logprobs: -1 }, 'prompt_logprobs'],
      [{ reasoning_effort: 'extreme' }, 'reasoning_effort'],
      [{ stop: '' }, 'stop'],
      [{ stop: ['a', ''] }, 'stop.1'],
      [{ stop: Array.from({ length: 65 }, () => 'x') }, 'stop'],
      [{ stop: 'x'.repeat(1025) }, 'stop'],
      [{ stop_token_ids: [9999] }, 'stop_token_ids.0'],
      [{ bad_words: ['a', ''] }, 'bad_words.1'],
      [{ bad_words: ['x'.repeat(257)] }, 'bad_words.0'],
      [{ cache_salt: '' }, 'cache_salt'],
      [{ request_id: '' }, 'request_id'],
      [{ store: true }, 'store'],
      [{ prompt_cache_key: 'x'.repeat(1025) }, 'prompt_cache_key'],
      [{ safety_identifier: 'x'.repeat(1025) }, 'safety_identifier'],
      [{ modalities: ['audio'] }, 'modalities.0'],
      [{ modalities: ['text', 'audio'] }, 'modalities.1'],
      [{ modalities: Array.from({ length: 17 }, () => 'text') }, 'modalities'],
      [{ reasoning_effort: 'xhigh' }, 'reasoning_effort'],
      [{ service_tier: 'flex' }, 'service_tier'],
    ],
  ],
  [
    'unknown fields, nested in others',
    [
      [
        { tools: [{ type: 'function', function: { name: 'f', paramters: {} } }] },
        'tools.0.function.paramters',
      ],
      [{ tools: [{ type: 'function', function: { name: 'f' }, cached: true }] }, 'tools.0.cached'],
      [{ response_format: { type: 'json_object', schem: {} } }, 'response_format.schem'],
      [{ stream: true, stream_options: { usage: true } }, 'stream_options.usage'],
    ],
  ],
  [
    'invalid tokens',
    [
      [{ logit_bias: { 5: 101 } }, 'logit_bias.5'],
      [{ logit_bias: { 5: -101 } }, 'logit_bias.5'],
      [{ logit_bias: { 9999: 1 } }, 'logit_bias.9999'],
      [{ logit_bias: { hello: 1 } }, 'logit_bias.hello'],
      [{ logit_bias: { '05': 1 } }, 'logit_bias.05'],
      [{ logit_bias: biases }, 'logit_bias'],
      [{ allowed_token_ids: [] }, 'allowed_token_ids'],
      [{ allowed_token_ids: [65, 9999] }, 'allowed_token_ids.1'],
      [{ allowed_token_ids: [65, special.user] }, 'allowed_token_ids.1'],
      [{ allowed_token_ids: [special.system] }, 'allowed_token_ids.0'],
    ],
  ],
  [
    'fields that need another',
    [
      [{ top_logprobs: 3 }, 'top_logprobs'],
      [{ stream_options: { include_usage: true } }, 'stream_options'],
      [{ stream: false, stream_options: { continuous_usage_stats: true } }, 'stream_options'],
      [{ stream: true, stream_options: { include_usge: true } }, 'stream_options.include_usge'],
      [{ length_penalty: 2 }, 'length_penalty'],
      [{ max_tokens: 4, min_tokens: 5 }, 'min_tokens'],
      [{ min_tokens: 508 }, 'min_tokens'],
      [{ vllm_xargs: { a: 1 } }, 'engine_xargs.a'],
      [{ logits_processors: ['os.system'] }, 'logits_processors.0'],
      [{ logits_processors: ['test.Doubling', { qualname: 'x' }] }, 'logits_processors.1.qualname'],
      [{ logits_processors: [{ qualname: 'test.Doubling', arg: [] }] }, 'logits_processors.0.arg'],
      [{ priority: 3 }, 'priority'],
      [{ mm_processor_kwargs: { size: 1 } }, 'mm_processor_kwargs'],
      [{ kv_transfer_params: { to: 'x' } }, 'kv_transfer_params'],
      [{ temprature: 1 }, 'temprature'],
    ],
  ],
  [
    'constraints that contradict themselves',
    [
      [{ tool_choice: 'required' }, 'tool_choice'],
      [{ tools, tool_choice: named('nope') }, 'tool_choice.function.name'],
      [{ tool_choice: allowed('auto', 'track') }, 'tool_choice'],
      [
        { tools, tool_choice: allowed('auto', 'track', 'nope') },
        'tool_choice.allowed_tools.tools.1.function.name',
      ],
      [{ tools, tool_choice: allowed('required') }, 'tool_choice.allowed_tools.tools'],
      [{ tools, tool_choice: allowed('never', 'track') }, 'tool_choice.allowed_tools.mode'],
      [{ tools, function_call: 'none', tool_choice: 'auto' }, 'function_call'],
      [
        { response_format: { type: 'json_object' }, structured_outputs: { regex: 'a' } },
        'structured_outputs',
      ],
      [{ structured_outputs: { json_object: true, choice: ['a'] } }, 'structured_outputs'],
      [{ structured_outputs: { grammar: 'root ::= "a"', regex: 'a' } }, 'structured_outputs'],
      [{ structured_outputs: { json: '[]' } }, 'structured_outputs.json'],
      [{ structured_outputs: { structural_tag: '{' } }, 'structured_outputs.structural_tag'],
      [{ structured_outputs: { choice: [] } }, 'structured_outputs.choice'],
      [{ structured_outputs: { guided: 'a' } }, 'structured_outputs.guided'],
      [{ structured_outputs: { regex: 'a', _backend: 'xgrammar' } }, 'structured_outputs._backend'],
      [
        { structured_outputs: { json_object: true, whitespace_pattern: ' ', disable_any_whitespace: true } },
        'structured_outputs.whitespace_pattern',
      ],
      [
        { structured_outputs: { regex: 'a', whitespace_pattern: ' ' } },
        'structured_outputs.whitespace_pattern',
      ],
    ],
  ],
  [
    'invalid messages',
    [
      [{ messages: [] }, 'messages'],
      [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
      [{ messages: [{ role: 'assistant', content: 'x', token_ids: [9999] }] }, 'messages.0.token_ids.0'],
    ],
  ],
])('refused by name are %s', async (_name, cases) => {
  const { chat, engine } = await start();
  for (const [fields, name] of cases) {
    const { status, body } = await chat(fields);
    expect([fields, status]).toEqual([fields, 422]);
    expect(body.detail[0].loc.slice(1).join('.')).toBe(name);
    expect(body.detail[0]).toMatchObject({ msg: expect.any(String), type: expect.any(String) });
    expect(body.error).toMatchObject({ type: 'invalid_request_error', param: name, code: 'invalid_request' });
  }
  expect(engine.requests).toHaveLength(0);
});

test.each<[string, unknown, string]>([
  ['functions', [{ name: 'refund' }], 'tools'],
  ['function_call', 'auto', 'tool_choice'],
  ['function_call', { name: 'refund' }, 'tool_choice'],
  ['verbosity', 'low', 'leave it out'],
  ['verbosity', 'medium', 'leave it out'],
  ['audio', { voice: 'alloy', format: 'mp3' }, 'text'],
  ['modalities', ['audio'], 'text'],
  ['best_of', 4, '`n`'],
  ['reasoning', { effort: 'low' }, '`reasoning_effort`'],
  ['thinking', { type: 'disabled' }, '`reasoning_effort`'],
  ['enable_thinking', false, '"none"'],
  ['guided_json', { type: 'object' }, 'structured_outputs: {"json": ...}'],
  ['regex', '[0-9]+', 'structured_outputs: {"regex": ...}'],
  ['ebnf', 'root ::= "a"', 'structured_outputs: {"grammar": ...}'],
])('%s %j is refused by name, with a remedy', async (name, value, remedy) => {
  const { chat } = await start();
  const long = { messages: [{ role: 'user', content: 'x'.repeat(200_000) }] };
  for (const fields of [{ [name]: value }, { ...long, [name]: value }]) {
    const { status, body } = await chat(fields);
    expect(status).toBe(422);
    expect(body.detail[0].loc.slice(0, 2)).toEqual(['body', name]);
    expect(body.detail[0].msg).toContain(remedy);
  }
});

test.each([
  ['sometimes'],
  [{ type: 'function', name: 'track' }],
  [{ type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'track' }] }],
  [{ type: 'custom', custom: { name: 'track' } }],
])('tool_choice %j of an unknown form is refused with the valid forms', async (tool_choice) => {
  const { chat } = await start();
  const { status, body } = await chat({ tools, tool_choice });
  expect([status, body.error.param]).toEqual([422, 'tool_choice']);
  for (const form of ['"none"', '"type":"function","function"', '"type":"allowed_tools","allowed_tools"'])
    expect(body.detail[0].msg).toContain(form);
});

test('an unknown processor is refused with the registered ones', async () => {
  const { chat } = await start();
  const { body } = await chat({ logits_processors: ['mine'] });
  expect(body.detail[0].msg).toContain('"mine"');
  expect(body.detail[0].msg).toContain('test.Doubling');
});

test.each([
  ['mm_processor_kwargs', /must be empty.*read only text/],
  ['kv_transfer_params', /must be empty.*samples replies also computes prompts/],
])('%s that is not empty is refused with the reason', async (name, reason) => {
  const { chat } = await start();
  expect((await chat({ [name]: { a: 1 } })).body.detail[0].msg).toMatch(reason);
});

test('tags and the end token may be in `allowed_token_ids`', async () => {
  const { chat } = await start();
  const calling = { tools, allowed_token_ids: [special.call, special.end] };
  expect((await chat(calling)).status).toBe(200);
  const thinking = { reasoning_effort: 'low', allowed_token_ids: [special.think, special.answer, 65] };
  expect((await chat(thinking)).status).toBe(200);
});

test('a model without reasoning refuses an effort', async () => {
  const { chat, engine } = await start();
  const format = engine.chatFormat();
  Object.assign(engine, { chatFormat: () => ({ ...format, reasoning: null }) });
  for (const reasoning_effort of ['minimal', 'low'])
    expect((await chat({ reasoning_effort })).body.error.param).toBe('reasoning_effort');
  expect((await chat({ reasoning_effort: 'none' })).status).toBe(200);
});

test('values without effect are accepted', async () => {
  const { chat } = await start();
  const { status } = await chat({
    ...{ priority: 0, echo: false, frequency_penalty: 0, presence_penalty: 0, repetition_penalty: 1 },
    ...{ add_generation_prompt: true, skip_special_tokens: true, logit_bias: {}, bad_words: [], stop: [] },
    ...{ logits_processors: [], engine_xargs: {}, mm_processor_kwargs: {}, kv_transfer_params: {} },
    ...{ min_tokens: 0, top_logprobs: 0, length_penalty: 1, stop_token_ids: [] },
    ...{ reasoning_effort: 'none', modalities: ['text'], function_call: 'none', functions: null },
    ...{ chat_template: null, stream: false, store: false, metadata: { a: 'b' }, unknown: null },
  });
  expect(status).toBe(200);
  for (const stream_options of [{}, { include_usage: false }, { continuous_usage_stats: null }])
    for (const stream of [false, null, undefined])
      expect([stream_options, (await chat({ stream_options, stream })).status]).toEqual([
        stream_options,
        200,
      ]);
});

test('a constraint that the engine does not support is a 422 with the engine’s message', async () => {
  const { chat } = await start();
  const { status, body } = await chat({ structured_outputs: { regex: '(?=a)' } });
  const loc = ['body', 'structured_outputs', 'regex'];
  const msg = 'regex: lookahead is not supported in (?=a)';
  expect([status, body.detail]).toEqual([
    422,
    [{ loc, msg, type: 'unsupported_constraint', ctx: {}, input: '(?=a)' }],
  ]);
  expect(body.error.param).toBe('structured_outputs.regex');
});

test('a prompt longer than the context is refused with both lengths', async () => {
  const { chat } = await start();
  const { status, body } = await chat({ messages: [{ role: 'user', content: 'x'.repeat(600) }] });
  expect(status).toBe(400);
  expect(body.detail).toContain('603');
  expect(body.detail).toContain('512');
  expect(body.error.code).toBe('context_length_exceeded');
});

test('a body that is nested too deeply is a 422', async () => {
  const { call } = await start();
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const body = `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":${deep}}}}]}`;
  expect((await call('POST', '/v1/chat/completions', body)).status).toBe(422);
});

test('malformed JSON is a 422, a body over the limit a 413', async () => {
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
