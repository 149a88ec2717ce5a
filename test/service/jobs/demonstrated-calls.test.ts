import { describe, expect, test } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { reorderJson } from '../../../src/service/jobs/schema-order.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { writtenCall } from '../../support/written-call.ts';
import { start } from '../harness.ts';
import { line, sft } from './support.ts';

const place = { type: 'object', properties: { city: {}, street: {} } };
const parameters = {
  type: 'object',
  properties: {
    order: { type: 'integer' },
    to: { $ref: '#/$defs/place' },
    items: { type: 'array', items: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/place' }] } },
  },
  $defs: { place },
};
const tools = [{ type: 'function', function: { name: 'send', parameters } }];
const mixed = '{"items": [{"street":"s","city":"c"}, null], "to": {"street":"t","city":"d"}, "order": 48}';
const ordered = '{"order":48,"to":{"city":"d","street":"t"},"items":[{"city":"c","street":"s"},null]}';

const calling = (name: string, fields: object = {}, message: object = {}) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'send', arguments: mixed } },
          { id: 'b', type: 'function', function: { name, arguments: '{}' } },
        ],
        ...message,
      },
    ],
    ...fields,
  });

test('the properties of calls and of JSON contents train in the order of their schema', async () => {
  const { call, createModel, follow, engine } = await start();
  const model = await createModel();
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema: parameters } };
  const lines = [
    calling('send', { tools }),
    line(mixed, { response_format }),
    line('no JSON', { response_format }),
    line(mixed),
  ];
  const upload = await call('POST', '/v1/preview/uploads', lines.join('\n'));
  const job = await call('POST', sft, {
    model_id: model.id,
    training_data_url: upload.body.url,
    config: { batch_size: 4 },
  });
  expect((await follow(job.body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
  const trained = (engine.trained[0]?.datums ?? []).map(({ tokens, spans }) =>
    spans.flatMap(({ start: at, length }) => tokens.slice(at, at + length)),
  );
  expect(trained).toEqual([
    tokensOf(
      special.call,
      `send${ordered}`,
      special.callEnd,
      special.call,
      'send{}',
      special.callEnd,
      special.end,
    ),
    tokensOf(ordered, special.end),
    tokensOf('no JSON', special.end),
    tokensOf(mixed, special.end),
  ]);
});

test('an engine accepts a call whose properties had another order', async () => {
  const engine = await createEmbeddedEngine({ threads: 1 });
  const id = engine.baseModels[0]?.id ?? '';
  try {
    const grammar = {
      type: 'named_json' as const,
      alternatives: [{ name: 'send', schema: parameters }],
      written: writtenCall,
    };
    const constraint = { grammar };
    const encode = (text: string) =>
      engine.encodeReplies(id, [{ parts: [`<tool_call>send${text}</tool_call>`], constraint }]);
    await expect(encode(JSON.stringify(JSON.parse(mixed)))).rejects.toThrow('leaves its constraint');
    expect(await encode(reorderJson(mixed, parameters))).toHaveLength(1);
  } finally {
    await engine.close();
  }
});

test.each<[string, object, string]>([
  [
    'an alternative beside properties',
    {
      type: 'object',
      properties: { id: { type: 'integer' } },
      required: ['id'],
      anyOf: [
        { properties: { mail: { type: 'string' } }, required: ['mail'] },
        { properties: { phone: { type: 'string' }, area: { type: 'integer' } }, required: ['phone'] },
      ],
    },
    '{"area":7,"phone":"x","id":1}',
  ],
  [
    'a reference beside properties',
    {
      $ref: '#/$defs/named',
      properties: { id: { type: 'integer' } },
      $defs: { named: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } },
    },
    '{"name":"x","id":1}',
  ],
  [
    'parts of `allOf` that name the same property',
    {
      type: 'object',
      allOf: [
        { properties: { a: { type: 'object', properties: { x: {} } } } },
        { properties: { b: {}, a: { type: 'object', properties: { y: {} } } } },
      ],
    },
    '{"b":1,"a":{"y":1,"x":2}}',
  ],
])('the order with %s is one that the constraint admits', async (_name, schema, text) => {
  const engine = await createEmbeddedEngine({ threads: 1 });
  const id = engine.baseModels[0]?.id ?? '';
  try {
    const grammar = {
      type: 'named_json' as const,
      alternatives: [{ name: 'send', schema: { ...schema } }],
      written: writtenCall,
    };
    const constraint = { grammar };
    const written = reorderJson(text, { ...schema });
    expect(JSON.parse(written)).toEqual(JSON.parse(text));
    expect(
      await engine.encodeReplies(id, [{ parts: [`<tool_call>send${written}</tool_call>`], constraint }]),
    ).toHaveLength(1);
  } finally {
    await engine.close();
  }
});

test('schemas that double at each level, and wide ones beside each other, are ordered at once', () => {
  const levels = Array.from({ length: 40 }, (_, at): [string, object] => [
    `a${at}`,
    at === 0
      ? { type: 'object', properties: { x: {}, y: {} } }
      : { anyOf: [{ $ref: `#/$defs/a${at - 1}` }, { $ref: `#/$defs/a${at - 1}` }] },
  ]);
  const doubling = { $ref: '#/$defs/a39', $defs: Object.fromEntries(levels) };
  expect(reorderJson('{"y":1,"x":2}', doubling)).toBe('{"x":2,"y":1}');
  const wide = (name: string) =>
    Array.from({ length: 1000 }, (_, at) => ({ properties: { [name]: { const: at } } }));
  const beside = { type: 'object', anyOf: wide('a'), oneOf: wide('b') };
  expect(reorderJson('{"a":0,"b":0}', beside)).toBe('{"b":0,"a":0}');
});

test.each<[string, string, object, string]>([
  ['further keys come last', '{"z":1,"b":2,"a":3}', { properties: { a: {}, b: {} } }, '{"a":3,"b":2,"z":1}'],
  [
    'the branch is the one whose constant fits',
    '{"x":1,"kind":"b"}',
    {
      oneOf: [
        { type: 'object', properties: { x: {}, kind: { const: 'a' } } },
        { type: 'object', properties: { kind: { const: 'b' }, x: {} } },
      ],
    },
    '{"kind":"b","x":1}',
  ],
  ['constants are written unchanged', '[{"b":1,"a":2}]', { enum: [[{ a: 2, b: 1 }]] }, '[{"a":2,"b":1}]'],
  [
    'first items have schemas of their own',
    '[{"b":1,"a":2}]',
    { prefixItems: [{ properties: { a: {}, b: {} } }] },
    '[{"a":2,"b":1}]',
  ],
  [
    'further values have theirs',
    '{"k":{"b":1,"a":2}}',
    { additionalProperties: { properties: { a: {}, b: {} } } },
    '{"k":{"a":2,"b":1}}',
  ],
  ['a schema that refers only to itself orders nothing', '{"b":1,"a":2}', { $ref: '#' }, '{"b":1,"a":2}'],
  ['a name that objects inherit is a key', '{"__proto__":1}', { type: 'object' }, '{"__proto__":1}'],
  ['text that is not JSON is unchanged', '{"a": ', {}, '{"a": '],
  [
    'numbers keep their digits, and keys that are numbers their order',
    '{ "b": [12345678901234567890, 1.0, 1e400, 0.1234567890123456789], "10": 1, "2": 2, "a": 2512292042121000001 }',
    { properties: { a: { type: 'integer' }, b: {} } },
    '{"a":2512292042121000001,"b":[12345678901234567890,1.0,1e400,0.1234567890123456789],"10":1,"2":2}',
  ],
  [
    'an integer has no fraction',
    '{"a": 1.0, "b": 1E2}',
    { properties: { a: { type: 'integer' } } },
    '{"a":1,"b":1E2}',
  ],
  [
    'a constant beyond 2^53 keeps the digits of the text',
    '9223372036854775807',
    { const: 2 ** 63 },
    '9223372036854775807',
  ],
])('%s', (_name, text, schema, written) => {
  expect(reorderJson(text, { ...schema })).toBe(written);
});

describe('a line with calls that cannot be sampled is refused when it is read', () => {
  const single = { tool_calls: null, function_call: { name: 'send', arguments: '{}' } };
  const named = { type: 'function', function: { name: 'send' } };
  test.each<[string, string, (string | number)[], RegExp]>([
    [
      'of no such tool',
      calling('sned', { tools }),
      ['tool_calls', 1],
      /"sned".*not a tool.*define it in tools/,
    ],
    ['without tools', calling('send'), ['tool_calls', 0], /not a tool of this line.*empty or absent/],
    ['in the earlier form', calling('send', {}, single), ['function_call'], /"send".*not a tool/],
    [
      'under tool_choice none',
      calling('send', { tools, tool_choice: 'none' }),
      ['tool_calls', 0],
      /tool_choice is "none".*leave out tool_choice/,
    ],
    [
      'of another tool than the named one',
      calling('b', { tools: [...tools, { type: 'function', function: { name: 'b' } }], tool_choice: named }),
      ['tool_calls', 1],
      /tool_choice names "send"/,
    ],
    [
      'of a tool that is not allowed',
      calling('b', {
        tools: [...tools, { type: 'function', function: { name: 'b' } }],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named] } },
      }),
      ['tool_calls', 1],
      /tool_choice names "send"/,
    ],
  ])('%s', async (_name, broken, path, reason) => {
    const { call } = await start();
    const { status, body } = await call('POST', '/v1/preview/uploads', `${line('a')}\n${broken}`);
    expect(status).toBe(422);
    expect(body.detail[0]).toMatchObject({
      loc: ['body', 'line 2', 'messages', '1', ...path.map(String)],
      msg: expect.stringMatching(reason),
    });
  });
});

test('a single line that cannot be encoded is reported in the singular', async () => {
  const { call, createModel, follow } = await start();
  const model = await createModel();
  const upload = await call('POST', '/v1/preview/uploads', `${line('a')}\n${line('impossible')}`);
  const job = await call('POST', sft, {
    model_id: model.id,
    training_data_url: upload.body.url,
    config: { batch_size: 1 },
  });
  expect((await follow(job.body.id)).at(-1).data.error_message).toMatch(/^line 2: /);
});
