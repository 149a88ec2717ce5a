import { describe, expect, test } from 'vitest';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

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

test('a call is parsed from its tokens, and the reply names the grammar that it was sampled under', async () => {
  const { chat, engine } = await start();
  engine.replies = [
    {
      tokens: tokensOf(
        special.call,
        'refund{"order":"48"}',
        special.callEnd,
        special.call,
        'track{}',
        special.callEnd,
        special.end,
      ),
    },
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
    grammar: {
      type: 'text_or_calls',
      content: { type: 'text' },
      calls: {
        type: 'named_json',
        alternatives: [
          { name: 'refund', schema: tools[0]?.function.parameters },
          { name: 'track', schema: { type: 'object', properties: {} } },
        ],
        written: {
          ...{ beforeName: '<tool_call>', beforeArguments: '', after: '</tool_call>', between: '' },
          mayHaveSpaces: false,
        },
      },
      tag: '<tool_call>',
      reasoning: { open: '<think>', close: '</think>' },
    },
  });
});

/** What a constraint says of calls. */
function callsIn(constraint: Constraint | null | undefined) {
  const grammar = constraint?.grammar;
  if (grammar?.type === 'text_or_calls') return grammar.calls;
  return grammar?.type === 'named_json' ? grammar : undefined;
}

test.each([
  ['required', { tool_choice: 'required' }, 'named_json', 2],
  ['a named function', { tool_choice: { type: 'function', function: { name: 'track' } } }, 'named_json', 1],
  ['none', { tool_choice: 'none' }, 'text', 0],
  ['auto', { tool_choice: 'auto', parallel_tool_calls: false }, 'text_or_calls', 2],
  ['function_call none', { function_call: 'none' }, 'text', 0],
])('tool_choice %s decides what a reply may be', async (_name, fields, type, alternatives) => {
  const { chat, engine } = await start();
  expect((await chat({ tools, ...fields })).status).toBe(200);
  const constraint = engine.requests[0]?.constraint;
  expect(constraint?.grammar.type).toBe(type);
  const calls = callsIn(constraint);
  expect(calls?.alternatives.length ?? 0).toBe(alternatives);
  if (calls) expect(calls.written.between).toBe(_name === 'required' ? '' : null);
});

describe('tool_choice allowed_tools', () => {
  const allowed = (mode: string, ...names: string[]) => ({
    tool_choice: {
      type: 'allowed_tools',
      allowed_tools: { mode, tools: names.map((name) => ({ type: 'function', function: { name } })) },
    },
  });
  const callable = (constraint: Constraint | null | undefined) =>
    callsIn(constraint)?.alternatives.map(({ name }) => name) ?? [];

  test.each([
    ['auto', ['track'], 'text_or_calls'],
    ['required', ['track'], 'named_json'],
    ['required', ['track', 'refund', 'track'], 'named_json'],
  ])('%s of %j allows only those calls, while the prompt shows all tools', async (mode, names, type) => {
    const { chat, engine } = await start();
    expect((await chat({ tools, ...allowed(mode, ...names) })).status).toBe(200);
    expect((await chat({ tools })).status).toBe(200);
    const [limited, free] = engine.requests;
    expect(limited?.constraint?.grammar.type).toBe(type);
    expect(callable(limited?.constraint).sort()).toEqual([...new Set(names)].sort());
    expect(callsIn(limited?.constraint)?.written.between).toBe('');
    expect(limited?.prompt).toEqual(free?.prompt);
  });

  test('required with one tool differs from naming that tool, which is called once', async () => {
    const { chat, engine } = await start();
    await chat({ tools, ...allowed('required', 'track') });
    await chat({ tools, tool_choice: { type: 'function', function: { name: 'track' } } });
    expect(engine.requests.map(({ constraint }) => callsIn(constraint)?.written.between)).toEqual(['', null]);
  });
});

test.each([
  [{ response_format: { type: 'json_object' } }, { type: 'json_object' }],
  [
    { response_format: { type: 'json_object', schema: { type: 'object' } } },
    { type: 'json_schema', schema: { type: 'object' } },
  ],
  [
    { response_format: { json_schema: { name: 'n', schema: { type: 'object' } } } },
    { type: 'json_schema', schema: { type: 'object' } },
  ],
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
  [{ structured_outputs: { grammar: 'root ::= "a"' } }, { type: 'ebnf', grammar: 'root ::= "a"' }],
  [
    { structured_outputs: { structural_tag: '{"type":"structural_tag","format":{}}' } },
    { type: 'structural_tag', tag: { type: 'structural_tag', format: {} } },
  ],
  [
    { structured_outputs: { json_object: true, disable_any_whitespace: false } },
    { type: 'json_object', whitespace: '[ \\t\\n\\r]*' },
  ],
  [{ structured_outputs: { json_object: true, disable_any_whitespace: true } }, { type: 'json_object' }],
  [
    { structured_outputs: { json: { type: 'object' }, whitespace_pattern: ' ?' } },
    { type: 'json_schema', schema: { type: 'object' }, whitespace: ' ?' },
  ],
  [
    { structured_outputs: { json: { type: 'object' }, disable_additional_properties: false } },
    { type: 'json_schema', schema: { type: 'object' }, closed: false },
  ],
  [
    {
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } },
      structured_outputs: { disable_any_whitespace: false, disable_additional_properties: true },
    },
    { type: 'json_schema', schema: { type: 'object' }, whitespace: '[ \\t\\n\\r]*', closed: true },
  ],
  [
    { structured_outputs: { regex: 'a', disable_fallback: true, _backend: 'auto', _backend_was_auto: true } },
    { type: 'regex', pattern: 'a' },
  ],
  [
    { structured_outputs: { regex: 'a', disable_fallback: false, _backend: 'scripted' } },
    { type: 'regex', pattern: 'a' },
  ],
])('%j constrains the text', async (fields, grammar) => {
  const { chat, engine } = await start();
  expect((await chat(fields)).status).toBe(200);
  expect(engine.requests[0]?.constraint).toEqual({ grammar });
});

test.each([
  [{ structured_outputs: {} }],
  [{ structured_outputs: { json_object: false, disable_any_whitespace: true } }],
  [{ response_format: { type: 'text' } }],
])('%j constrains nothing', async (fields) => {
  const { chat, engine } = await start();
  expect((await chat(fields)).status).toBe(200);
  expect(engine.requests[0]?.constraint).toBeNull();
});

describe('reasoning', () => {
  const thought = tokensOf(special.think, 'so', special.answer, 'hello', special.end);

  test.each([
    ['minimal', 16],
    ['low', 32],
    ['medium', 64],
    ['high', 128],
  ])('of %s effort has at most %i of 512 tokens, before the answer', async (effort, limit) => {
    const { chat, engine } = await start();
    engine.replies = [{ tokens: thought }];
    const { body } = await chat({ reasoning_effort: effort });
    expect(engine.requests[0]?.constraint).toEqual({
      reasoning: { before: '<think>', close: '</think>', after: '', limit },
      grammar: { type: 'text' },
    });
    expect(body.choices[0].message).toMatchObject({
      content: 'hello',
      reasoning: 'so',
      reasoning_content: 'so',
    });
    expect(body.choices[0].sampling.constraint).toMatch(/^sha256-/);
  });

  test('is sampled and counted, but not shown, with include_reasoning false', async () => {
    const { chat, engine } = await start();
    engine.replies = [{ tokens: thought }];
    const { body } = await chat({
      ...{ reasoning_effort: 'low', include_reasoning: false },
      ...{ return_token_ids: true, logprobs: true },
    });
    const [choice] = body.choices;
    expect(choice.message).toEqual({ role: 'assistant', content: 'hello', refusal: null });
    expect(choice.token_ids).toEqual(thought);
    expect(choice.logprobs.content).toHaveLength(thought.length);
    expect(body.usage.completion_tokens).toBe(thought.length);
  });

  test.each([[{}], [{ reasoning_effort: 'none' }]])('is off with %j', async (fields) => {
    const { chat, engine } = await start();
    const { body } = await chat({ include_reasoning: true, ...fields });
    expect(engine.requests[0]?.constraint).toBeNull();
    expect(body.choices[0].message).not.toHaveProperty('reasoning');
  });

  test('none with another effort in chat_template_kwargs is a contradiction', async () => {
    const { chat } = await start();
    const { body } = await chat({
      reasoning_effort: 'none',
      chat_template_kwargs: { reasoning_effort: 'high' },
    });
    expect(body.error.param).toBe('chat_template_kwargs.reasoning_effort');
  });

  test('may be combined with a grammar and tools', async () => {
    const { chat, engine } = await start();
    engine.replies = [
      {
        tokens: tokensOf(
          special.think,
          'hm',
          special.answer,
          special.call,
          'track{}',
          special.callEnd,
          special.end,
        ),
      },
    ];
    const { body } = await chat({ reasoning_effort: 'high', tools, tool_choice: 'required' });
    expect(engine.requests[0]?.constraint).toMatchObject({
      reasoning: { before: '<think>' },
      grammar: { type: 'named_json' },
    });
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: null, reasoning: 'hm', tool_calls: [{ function: { name: 'track' } }] },
    });
  });
});

test('every kind of constraint is read from the store unchanged', async () => {
  const { chat, call, createModel, engine } = await start();
  const model = await createModel();
  const kinds = [
    { structured_outputs: { grammar: 'root ::= "a"' } },
    { structured_outputs: { structural_tag: { type: 'structural_tag', format: {} } } },
    { structured_outputs: { json: {}, whitespace_pattern: ' ?', disable_additional_properties: false } },
    { reasoning_effort: 'low', structured_outputs: { choice: ['a'] } },
  ];
  for (const kind of kinds) {
    const { body } = await chat({ model: 'local/desk/agent', ...kind, return_token_ids: true });
    const trajectory = (reward: number) => ({
      messages_and_choices: [{ role: 'user', content: 'hi' }, body.choices[0]],
      reward,
    });
    const job = await call('POST', '/v1/preview/training-jobs', {
      model_id: model.id,
      trajectory_groups: [{ trajectories: [trajectory(0), trajectory(1)] }],
    });
    expect([kind, job.status]).toEqual([kind, 200]);
  }
  await expect.poll(() => engine.trainings).toBe(kinds.length);
  const trained = engine.trained.map(({ datums }) => datums[0]?.spans[0]?.constraint);
  expect(trained).toEqual(engine.requests.map(({ constraint }) => constraint));
});
