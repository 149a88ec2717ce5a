import { describe, expect, test } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { argumentsSchema } from '../../../src/language/constraint/arguments-schema.ts';
import { special } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

const object = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const toolOf = (parameters: unknown) => ({ type: 'function', function: { name: 'go', parameters } });

describe('the arguments of a call are an object of the parameters’ schema', () => {
  test.each<[object, object]>([
    [{}, { type: 'object' }],
    [{ description: 'd' }, { description: 'd', type: 'object' }],
    [
      { ...object, type: ['object', 'null', 'string'], minLength: 3 },
      { ...object, type: 'object' },
    ],
    [
      { minLength: 3, title: 't' },
      { title: 't', type: 'object' },
    ],
    [{ enum: [1, { a: 1 }, null] }, { enum: [{ a: 1 }] }],
    [{ anyOf: [{ type: 'null' }, object] }, { anyOf: [object] }],
    [
      { oneOf: [object, { type: 'array' }, { anyOf: [{ type: ['object', 'null'] }] }] },
      { oneOf: [object, { anyOf: [{ type: 'object' }] }] },
    ],
  ])('%j is narrowed', (parameters, narrowed) => {
    expect(argumentsSchema({ ...parameters })).toEqual(narrowed);
  });

  test.each<[object]>([
    [object],
    [{ properties: {} }],
    [{ type: ['object'], additionalProperties: false }],
    [{ $ref: '#/$defs/A', $defs: { A: object } }],
    [{ anyOf: [object, { $ref: '#/anyOf/0' }] }],
    [{ const: { a: 1 } }],
    [{ $ref: '#/nowhere' }],
  ])('%j stays as it is, and so does the hash of its constraint', (parameters) => {
    const schema = { ...parameters };
    expect(argumentsSchema(schema)).toBe(schema);
  });

  test('references keep what they led to, and only the arguments lose what is no object', () => {
    const tree = {
      anyOf: [{ type: 'null' }, { $ref: '#/$defs/Node' }, { $ref: '#/$defs/Maybe' }],
      $defs: {
        Node: { type: 'object', properties: { next: { $ref: '#' } } },
        Maybe: { type: ['object', 'string'] },
      },
    };
    const document = {
      anyOf: [
        { type: 'null' },
        { $ref: '#/$defs/document/$defs/Node' },
        { $ref: '#/$defs/document/$defs/Maybe' },
      ],
      $defs: {
        Node: { type: 'object', properties: { next: { $ref: '#/$defs/document' } } },
        Maybe: { type: ['object', 'string'] },
      },
    };
    expect(argumentsSchema(tree)).toEqual({
      anyOf: [{ $ref: '#/$defs/document/$defs/Node' }, { $ref: '#/$defs/objects/0' }],
      $defs: { document, objects: [{ type: 'object' }] },
    });
  });

  test.each<[object]>([
    [{ type: 'string' }],
    [{ type: 'array', items: object }],
    [{ type: ['string', 'null'] }],
    [{ enum: ['a', 1] }],
    [{ const: null }],
    [{ anyOf: [{ type: 'string' }, { $ref: '#/$defs/A' }], $defs: { A: { type: 'null' } } }],
    [{ allOf: [object, { type: 'string' }] }],
    [{ $ref: '#' }],
  ])('%j admits no object, and is refused where it stands', async (parameters) => {
    const { chat, engine } = await start();
    const answer = await chat({ tools: [toolOf(object), toolOf(parameters)] });
    expect(answer.status).toBe(422);
    expect(answer.body.detail).toEqual([
      expect.objectContaining({
        loc: ['body', 'tools', 1, 'function', 'parameters'],
        msg: expect.stringContaining('admits no object'),
      }),
    ]);
    expect(engine.requests).toEqual([]);
  });

  test.each([[undefined], [null]])('parameters %j are an empty object', async (parameters) => {
    const { chat, engine } = await start();
    await chat({ tools: [toolOf(parameters)] });
    const call = engine.requests[0]?.constraint?.branches.find(({ open }) => open === special.call);
    expect(call?.grammar).toMatchObject({ alternatives: [{ schema: { type: 'object', properties: {} } }] });
  });

  test.each<[object]>([
    [{}],
    [{ description: 'd' }],
    [{ ...object, type: ['object', 'null'] }],
    [
      {
        anyOf: [{ type: 'number' }, { $ref: '#/$defs/A' }],
        $defs: { A: { ...object, type: ['object', 'null'] } },
      },
    ],
  ])('an engine under %j begins the arguments with a brace', async (parameters) => {
    const engine = await createEmbeddedEngine({ threads: 1 });
    const id = engine.baseModels[0]?.id ?? '';
    try {
      const schema = argumentsSchema({ ...parameters });
      if (!schema) throw new Error('no object is admitted');
      const { callToken } = engine.chatFormat(id);
      const constraint = {
        branches: [
          {
            open: callToken,
            grammar: { type: 'named_json' as const, alternatives: [{ name: 'go', schema }] },
            repeat: false,
          },
        ],
      };
      const [tokens] = await engine.encodeReplies(id, [{ parts: [callToken, 'go{"a":1}'], constraint }]);
      expect(tokens?.length).toBeGreaterThan(2);
      await expect(engine.encodeReplies(id, [{ parts: [callToken, 'go4e+63'], constraint }])).rejects.toThrow(
        'leaves its constraint',
      );
    } finally {
      await engine.close();
    }
  });
});
