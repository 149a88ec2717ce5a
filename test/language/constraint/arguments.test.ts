import { describe, expect, it, test } from 'vitest';
import { keywordArguments } from '../../../src/language/chat/python-literals.ts';
import { toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import type { Grammar, JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { writtenCall, writtenPython } from '../../support/written-call.ts';
import { admits, compiler, format, textOf } from '../grammar/support.ts';

const object = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const callOf = (schema: JsonSchema): Grammar => ({
  type: 'named_json',
  alternatives: [{ name: 'go', schema }],
  written: { ...writtenCall, beforeName: '', after: '' },
});
const pythonOf = (schema: JsonSchema): Grammar => ({
  type: 'named_json',
  alternatives: [{ name: 'go', schema }],
  written: { ...writtenPython, python: { open: '', close: '' } },
});
const nullable = { type: ['object', 'null'], additionalProperties: false };
const tree = {
  anyOf: [{ type: 'null' }, { $ref: '#/$defs/Node' }, { $ref: '#/$defs/Maybe' }],
  $defs: {
    Node: { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] },
    Maybe: { type: ['object', 'string'], additionalProperties: false },
  },
};

/** Schemas, arguments that they allow, and others. */
const cases: [schema: JsonSchema, allowed: string[], refused: string[]][] = [
  [{}, ['{}', '{"b":[1,null]}'], ['1', 'null', '"{}"', '[]']],
  [{ description: 'd' }, ['{"b":1}'], ['null']],
  [object, ['{"a":1}'], ['{}', '{"a":"b"}']],
  [{ properties: {} }, ['{}'], ['null', '{"a":1}']],
  [{ ...object, type: ['object', 'null', 'string'], minLength: 3 }, ['{"a":1}'], ['null', '"abc"', '{}']],
  [{ minLength: 3, title: 't' }, ['{"b":1}'], ['"abc"']],
  [{ enum: [1, { a: 1 }, null] }, ['{"a":1}'], ['1', 'null']],
  [{ const: { a: 1 } }, ['{"a":1}'], ['{}']],
  [{ anyOf: [{ type: 'null' }, object] }, ['{"a":1}'], ['null', '{}']],
  [{ anyOf: [{ type: 'string', pattern: '(?=a)' }, object] }, ['{"a":1}'], ['"a"']],
  [{ oneOf: [object, { type: 'array' }, { anyOf: [{ type: 'string' }] }] }, ['{"a":1}'], ['[]', '""']],
  [{ allOf: [nullable] }, ['{}'], ['null']],
  [{ $ref: '#/$defs/A', $defs: { A: nullable } }, ['{}'], ['null']],
  [{ anyOf: [object, { $ref: '#/anyOf/0' }] }, ['{"a":1}'], ['{}']],
  [{ anyOf: [object, { $ref: '#' }] }, ['{"a":1}'], ['{}']],
  // Within the arguments, the same references keep their other values.
  [
    tree,
    ['{}', '{"next":null}', '{"next":"s"}', '{"next":{}}', '{"next":{"next":null}}'],
    ['null', '"s"', '{"next":1}'],
  ],
];

describe('the arguments of a call are an object that the parameters allow', () => {
  test.each(cases)('%j', async (schema, allowed, refused) => {
    for (const text of allowed) expect(await admits(callOf(schema), `go${text}`), text).toBe(true);
    for (const text of refused) expect(await admits(callOf(schema), `go${text}`), text).toBe(false);
  });

  test.each(cases)('%j in Python', async (schema, allowed, refused) => {
    for (const [texts, isAllowed] of [
      [allowed, true],
      [refused, false],
    ] as const)
      for (const text of texts) {
        const written = `go(${keywordArguments(text)})`;
        expect(await admits(pythonOf(schema), written), written).toBe(isAllowed);
      }
  });

  test.each<[object]>([
    [{ type: 'string' }],
    [{ type: 'array', items: object }],
    [{ type: ['string', 'null'] }],
    [{ enum: ['a', 1] }],
    [{ const: null }],
    [{ anyOf: [{ type: 'string' }, { $ref: '#/$defs/A' }], $defs: { A: { type: 'null' } } }],
    [{ allOf: [{ type: 'string' }] }],
    [{ $ref: '#' }],
  ])('%j is refused, because it allows no object', async (schema) => {
    await expect(compiler.compile(textOf(callOf({ ...schema })))).rejects.toMatchObject({
      code: 'schema_unsupported',
      message: expect.stringMatching(/^JSON schema, go #: allows no object/),
    });
  });

  test.each([[undefined], [null]])('%j as parameters means an object without properties', (parameters) => {
    const tools = [{ type: 'function' as const, function: { name: 'go', parameters } }];
    const surroundings = {
      format,
      contextLength: 1000,
      engine: 'embedded',
      parseJson: (text: string) => JSON.parse(text),
    };
    expect(toConstraint({ tools }, surroundings)?.grammar).toMatchObject({
      calls: { alternatives: [{ schema: { type: 'object', properties: {} } }] },
    });
  });
});

/** A name as part of a URI, with the letters of the mask percent-encoded. */
const spelling = (name: string, mask: number) =>
  [...name]
    .map((letter, index) => ((mask >> index) & 1 ? `%${letter.charCodeAt(0).toString(16)}` : letter))
    .join('');

/** Nested schemas with a reference to each of them, around one that is long. */
function nested({ depth, inner, references }: { depth: number; inner: unknown[]; references: number }) {
  let schema: unknown = { anyOf: [{ type: 'string' }, ...inner] };
  for (let level = 0; level < depth; level++) schema = { anyOf: [{ type: 'null' }, schema] };
  const anyOf = Array.from({ length: references }, (_, level) => ({
    $ref: `#/$defs/a${'/anyOf/1'.repeat(level)}`,
  }));
  return { anyOf, $defs: { a: schema } };
}

describe('references of the parameters of a tool', () => {
  test('compile once for each schema that they lead to, however they are spelled', async () => {
    const name = 'abcdefghijkl';
    const spellings = Array.from({ length: 1000 }, (_, mask) => ({
      $ref: `#/$defs/${spelling(name, mask)}`,
    }));
    const maybe = { anyOf: [nullable, { type: 'string' }, ...spellings] };
    const { graph } = await compiler.plan(
      textOf(callOf({ $ref: `#/$defs/${name}`, $defs: { [name]: maybe } })),
    );
    expect(graph?.nodes.table.length).toBeLessThan(10_000);
  });

  test.each([
    [
      'one long schema',
      nested({ depth: 60, inner: [{ properties: { ['n'.repeat(100_000)]: {} } }], references: 60 }),
    ],
    [
      'a schema with many branches',
      nested({ depth: 60, inner: Array(9000).fill({ const: {} }), references: 60 }),
    ],
  ])('are refused if they lead to %s too often', async (_what, schema) => {
    await expect(compiler.compile(textOf(callOf(schema)))).rejects.toMatchObject({
      code: 'grammar_too_large',
    });
  });
});

test('descriptions and examples in a schema change nothing that a reply may be', async () => {
  const described = {
    title: 'Order',
    type: 'object',
    properties: {
      title: { type: 'string', description: 'of the book', default: 'none' },
      kind: { enum: [{ description: 'kept' }], examples: [1] },
    },
    required: ['title', 'kind'],
    $defs: { a: { type: 'string', title: 'a' } },
  };
  const text = '{"title":"t","kind":{"description":"kept"}}';
  for (const schema of [described, { ...described, description: 'more' }])
    expect(await admits({ type: 'json_schema', schema }, text)).toBe(true);
});

describe('keyword arguments in Python', () => {
  const admitted = (schema: JsonSchema, text: string) => admits(pythonOf(schema), `go(${text})`);

  it('have the words of Python, and a space after commas and colons or none', async () => {
    const any = { type: 'object', properties: { a: {}, b: {} } };
    for (const text of ['a=True, b=None', 'a=False,b=[1, {"x": True,"y":None}]', 'b="true"', 'a={}', ''])
      expect(await admitted(any, text), text).toBe(true);
    for (const text of [
      'a=true',
      'b=null',
      'a=[false]',
      'a = 1',
      'b=1, a=1',
      'c=1',
      '"a"=1',
      'a:1',
      'a=1,',
      '1',
    ])
      expect(await admitted(any, text), text).toBe(false);
    const constants = { type: 'object', properties: { a: { enum: [true, null, { x: [false] }, 'None'] } } };
    for (const text of ['a=True', 'a=None', 'a={"x": [False]}', 'a="None"'])
      expect(await admitted(constants, text), text).toBe(true);
    expect(await admitted(constants, 'a=true')).toBe(false);
  });

  it('may have any further names of Python where the schema says so', async () => {
    const open = { type: 'object', properties: { ab: {} }, additionalProperties: { type: 'integer' } };
    for (const text of ['ab="x", a=1, abc=2, _3=3', 'b=1', ''])
      expect(await admitted(open, text), text).toBe(true);
    for (const text of ['a="x"', '3a=1', 'a-b=1', 'ü=1', 'a=1, ab=2'])
      expect(await admitted(open, text), text).toBe(false);
  });

  it('may have names that Python reserves, but none that cannot be read', async () => {
    const named = (name: string) => ({ type: 'object', properties: { [name]: { type: 'integer' } } });
    for (const name of ['from', 'user-id', '$top', 'größe'])
      expect(await admitted(named(name), `${name}=1`), name).toBe(true);
    for (const name of ['', 'a b', 'a=b', 'a,b', 'a)', '"a"'])
      await expect(compiler.compile(textOf(pythonOf(named(name)))), name).rejects.toMatchObject({
        code: 'schema_unsupported',
        message: expect.stringContaining(`go #: the property ${JSON.stringify(name)} cannot be the name`),
      });
    // Within a value they are keys.
    const inner = { type: 'object', properties: { a: named('a b') } };
    expect(await admitted(inner, 'a={"a b": 1}')).toBe(true);
    for (const [keyword, value] of Object.entries({
      propertyNames: { pattern: '^a' },
      patternProperties: { '^a': {} },
    }))
      await expect(compiler.compile(textOf(pythonOf({ type: 'object', [keyword]: value })))).rejects.toThrow(
        `"${keyword}"`,
      );
  });
});
