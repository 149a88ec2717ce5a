import { describe, expect, it } from 'vitest';
import { MartingaleError } from '../../../src/contract/index.ts';
import type { JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { admits, compiler, textOf } from './support.ts';

const a = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const tree = { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] };

const enforced: [what: string, schema: JsonSchema, admitted: string[], refused: string[]][] = [
  [
    'type beside anyOf',
    { type: ['string', 'null'], anyOf: [{ minLength: 2 }, { type: 'integer' }] },
    ['"ab"', 'null'],
    ['"a"', '1'],
  ],
  [
    'properties beside anyOf',
    {
      ...a,
      anyOf: [{ properties: { b: { const: 1 } }, required: ['b'] }, { properties: { c: { const: 2 } } }],
    },
    ['{"a":1,"b":1}', '{"a":1}', '{"a":1,"c":2}'],
    ['{"b":1}', '{"a":1,"b":2}', '{"a":1,"b":1,"c":2}'],
  ],
  [
    'required properties in branches',
    { properties: { a: {}, b: {} }, anyOf: [{ required: ['a'] }, { required: ['b'] }] },
    ['{"a":1}', '{"b":1}', '{"a":1,"b":1}'],
    ['{}'],
  ],
  [
    'exactly one of required properties',
    { properties: { a: {}, b: {} }, oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    ['{"a":1}', '{"b":1}'],
    ['{}', '{"a":1,"b":1}'],
  ],
  [
    'bounds in branches',
    { type: 'integer', oneOf: [{ minimum: 5 }, { maximum: 8 }] },
    ['4', '9'],
    ['5', '8'],
  ],
  [
    'oneOf objects that share no constant',
    {
      oneOf: [
        { properties: { a: {} }, required: ['a'], additionalProperties: true },
        { properties: { b: {} }, required: ['b'], additionalProperties: false },
        { properties: { kind: { const: 'c' } }, required: ['kind'], additionalProperties: true },
      ],
    },
    ['{"a":1}', '{"b":1}', '{"kind":"c"}', '{"a":1,"d":1}'],
    ['{"a":1,"kind":"c"}', '{"a":1,"b":1}', '{"b":1,"d":1}', '{}'],
  ],
  [
    'allOf of objects',
    { allOf: [a, { properties: { b: { type: 'null' } }, required: ['b'] }] },
    ['{"a":1,"b":null}'],
    ['{"a":1}', '{"b":null}', '{"a":1,"b":null,"c":1}'],
  ],
  [
    'a property in several schemas',
    { allOf: [a, { properties: { a: { minimum: 3 } } }, { properties: { a: { maximum: 4 } } }] },
    ['{"a":3}', '{"a":4}'],
    ['{"a":2}', '{"a":5}'],
  ],
  [
    'keywords beside $ref',
    { $ref: '#/$defs/a', properties: { b: { type: 'null' } }, $defs: { a } },
    ['{"b":null,"a":1}', '{"a":1}'],
    ['{"b":null}'],
  ],
  [
    'multiples between two bounds',
    { type: 'integer', minimum: -10, exclusiveMaximum: 100, multipleOf: 5 },
    ['-10', '0', '95'],
    ['-15', '7', '100'],
  ],
  [
    'multiples of a fraction, of whole numbers and of a format',
    {
      properties: {
        stars: { multipleOf: 0.1, minimum: 0, maximum: 5 },
        even: { allOf: [{ multipleOf: 2 }, { multipleOf: 3 }], format: 'uint8', maximum: 20, minimum: -20 },
      },
    },
    ['{"stars":4.5,"even":0}', '{"even":18}', '{"stars":0.2}'],
    ['{"stars":4.55}', '{"even":-6}', '{"even":4}', '{"stars":5.1}'],
  ],
  [
    'additionalProperties of one schema for the properties of another',
    { allOf: [{ properties: { a: {} }, additionalProperties: { type: 'null' } }, { properties: { b: {} } }] },
    ['{"a":1,"b":null}'],
    ['{"a":1,"b":2}'],
  ],
  [
    'additionalProperties: false beside a schema with other properties',
    { allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { a: {}, b: {} } }] },
    ['{"a":1}'],
    ['{"a":1,"b":2}'],
  ],
  [
    'unevaluatedProperties',
    { allOf: [{ properties: { a: {} } }], properties: { b: {} }, unevaluatedProperties: false },
    ['{"b":1,"a":1}'],
    ['{"b":1,"a":1,"c":1}'],
  ],
  [
    'unevaluatedProperties within a part',
    { allOf: [{ properties: { a: {} }, unevaluatedProperties: false }, { properties: { b: {} } }] },
    ['{"a":1}'],
    ['{"a":1,"b":1}'],
  ],
  [
    'unevaluatedProperties that another describes',
    {
      properties: { a: {} },
      allOf: [{ unevaluatedProperties: { type: 'integer' } }],
      unevaluatedProperties: false,
    },
    ['{"a":1}', '{"a":1,"b":2}'],
    ['{"a":"x"}', '{"a":1,"b":"x"}'],
  ],
  [
    'unevaluatedProperties beside one that does not describe what is beside it',
    {
      allOf: [{ properties: { a: {} }, unevaluatedProperties: true }],
      anyOf: [{ unevaluatedProperties: false, properties: { a: {} } }],
    },
    ['{"a":1}'],
    ['{"a":1,"b":2}'],
  ],
  [
    'unevaluatedProperties beside not and if, which describe nothing if they do not match',
    {
      properties: { a: {} },
      not: { properties: { b: { const: 1 } }, required: ['b'] },
      if: { properties: { c: { const: 1 } }, required: ['c'] },
      else: { properties: { d: {} } },
      unevaluatedProperties: false,
    },
    ['{"a":1}', '{"a":1,"c":1}', '{"a":1,"d":1}'],
    ['{"a":1,"b":2}', '{"a":1,"c":2}', '{"a":1,"c":2,"d":1}'],
  ],
  [
    'unevaluatedItems',
    { type: 'array', allOf: [{ prefixItems: [{ const: 1 }] }], unevaluatedItems: { const: 2 }, maxItems: 3 },
    ['[1]', '[1,2,2]'],
    ['[2]', '[1,1]'],
  ],
  [
    'unevaluatedItems that another describes',
    {
      type: 'array',
      allOf: [{ prefixItems: [{ type: 'string' }] }, { unevaluatedItems: true }],
      unevaluatedItems: false,
    },
    ['["a"]', '["a",2,true]'],
    ['[1]'],
  ],
  [
    'items of several schemas',
    { items: { minimum: 2 }, allOf: [{ items: { maximum: 3, type: 'integer' } }] },
    ['[]', '[2,3]'],
    ['[1]', '[4]'],
  ],
  [
    'tuples of older drafts',
    { items: [{ const: 1 }], additionalItems: { const: 2 } },
    ['[1]', '[1,2,2]'],
    ['[2]', '[1,1]'],
  ],
  [
    'enum beside other keywords',
    { enum: ['a', 'bcd', 7, null], type: ['string', 'integer'], minLength: 2, not: { const: 8 } },
    ['"bcd"', '7'],
    ['"a"', 'null'],
  ],
  [
    'enum in two schemas',
    { enum: [1, 2, 3], allOf: [{ enum: [2, 3, 4] }], not: { const: 3 } },
    ['2'],
    ['1', '3', '4'],
  ],
  [
    'if, then and else',
    {
      properties: { kind: { enum: ['x', 'y'] }, n: { type: 'integer' } },
      required: ['kind'],
      if: { properties: { kind: { const: 'x' } } },
      // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema.
      then: { required: ['n'] },
      else: { properties: { n: { minimum: 10 } } },
    },
    ['{"kind":"x","n":1}', '{"kind":"y"}', '{"kind":"y","n":10}'],
    ['{"kind":"x"}', '{"kind":"y","n":9}'],
  ],
  [
    'not a type',
    { not: { type: ['string', 'object', 'array', 'number'] } },
    ['true', 'null'],
    ['"a"', '1', '{}'],
  ],
  ['not a text', { type: 'string', not: { enum: ['a', 'b'] } }, ['""', '"c"', '"aa"'], ['"a"', '"b"']],
  [
    'not a pattern',
    { type: 'string', not: { pattern: '^x' }, maxLength: 3 },
    ['"abc"', '""'],
    ['"xbc"', '"abcd"'],
  ],
  [
    'not a property',
    { properties: { a: {}, b: {} }, not: { required: ['a'] } },
    ['{}', '{"b":1}'],
    ['{"a":1}'],
  ],
  [
    'dependentRequired',
    { properties: { a: {}, b: {} }, dependentRequired: { a: ['b'] } },
    ['{}', '{"b":1}', '{"a":1,"b":1}'],
    ['{"a":1}'],
  ],
  [
    'dependencies of older drafts',
    {
      properties: { a: {}, b: {}, c: {} },
      dependencies: { a: ['b'], b: { properties: { c: { const: 1 } } } },
    },
    ['{}', '{"a":1,"b":1}', '{"c":2}', '{"a":1,"b":1,"c":1}'],
    ['{"a":1}', '{"b":1,"c":2}'],
  ],
  [
    'patternProperties',
    {
      properties: { ab: { const: 0 } },
      patternProperties: { '^a': { type: 'integer' }, b$: { minimum: 5 } },
    },
    ['{}', '{"a":1}', '{"aab":5}', '{"xb":5}'],
    ['{"ab":0}', '{"a":"x"}', '{"aab":4}', '{"xb":1}', '{"c":1}'],
  ],
  [
    'patternProperties and further properties',
    { patternProperties: { '^a': { type: 'integer' } }, additionalProperties: { type: 'null' } },
    ['{"a":1,"b":null}', '{"b":null}'],
    ['{"b":1}', '{"a":null}'],
  ],
  [
    'propertyNames beside properties',
    { properties: { a: {}, xx: {} }, additionalProperties: true, propertyNames: { maxLength: 1 } },
    ['{"a":1}', '{"b":1}'],
    ['{"xx":1}', '{"bb":1}'],
  ],
  [
    'required without properties',
    { type: 'object', required: ['a'] },
    ['{"a":1}', '{"a":1,"b":2}'],
    ['{}', '{"b":2}'],
  ],
  [
    'minProperties and maxProperties',
    { properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 2 },
    ['{"a":1}', '{"b":1,"c":1}'],
    ['{}', '{"a":1,"b":1,"c":1}'],
  ],
  [
    'maxProperties below what is required',
    { anyOf: [{ type: 'object', required: ['a', 'b'], maxProperties: 1 }, { type: 'null' }] },
    ['null'],
    ['{"a":1}', '{"a":1,"b":1}'],
  ],
  ['a record that is not empty', { type: 'object', minProperties: 1 }, ['{"a":1}'], ['{}']],
  ['a property that may not be', { properties: { a: false, b: {} } }, ['{}', '{"b":1}'], ['{"a":1}']],
  [
    'different items',
    { type: 'array', uniqueItems: true, items: { enum: ['a', 'b', 'c'] }, minItems: 1 },
    ['["a"]', '["c","a"]', '["b","c","a"]'],
    ['[]', '["a","a"]'],
  ],
  [
    'pattern and length',
    { type: 'string', pattern: '^[a-c]+$', minLength: 2, maxLength: 3 },
    ['"ab"', '"abc"'],
    ['"a"', '"abca"', '"xy"'],
  ],
  [
    'patterns with look-around, lengths and what is excluded',
    {
      properties: {
        password: { type: 'string', pattern: '^(?=.*[A-Z])(?=.*\\d)\\S{8,}$', maxLength: 12 },
        name: { type: 'string', pattern: '^(?!-)[a-z-]+(?<!-)$', not: { pattern: '--' } },
        word: { type: 'string', pattern: '\\bcat\\b' },
      },
      patternProperties: { '^(?!x-|name|word|password)': { enum: ['a1', 'b2'], pattern: '^(?!a)' } },
      required: ['password'],
    },
    [
      '{"password":"Abcdefg1"}',
      '{"password":"1bcdefgAXYZ1","name":"a-b","word":"a cat."}',
      '{"password":"Abcdefg1","word":"cat","y":"b2"}',
    ],
    [
      '{"password":"abcdefg1"}',
      '{"password":"Abcdef1"}',
      '{"password":"Abcdefghijkl1"}',
      '{"password":"Abcdefg1","name":"a--b"}',
      '{"password":"Abcdefg1","name":"-a"}',
      '{"password":"Abcdefg1","word":"cats"}',
      '{"password":"Abcdefg1","y":"a1"}',
      '{"password":"Abcdefg1","x-y":"b2"}',
    ],
  ],
  [
    'pattern within a text and length',
    { type: 'string', pattern: 'b', maxLength: 3 },
    ['"b"', '"abc"'],
    ['"aaa"', '"aaba"'],
  ],
  [
    'two patterns',
    { type: 'string', allOf: [{ pattern: '^[ab]{2}$' }, { pattern: 'a$' }] },
    ['"ba"', '"aa"'],
    ['"ab"', '"a"'],
  ],
  [
    'pattern and format',
    { type: 'string', format: 'date', pattern: '^2024' },
    ['"2024-02-29"'],
    ['"2023-01-01"', '"2024"'],
  ],
  [
    'bounds of older drafts',
    { type: 'integer', minimum: 1, exclusiveMinimum: true, maximum: 3 },
    ['2', '3'],
    ['1', '4'],
  ],
  [
    'decimal bounds',
    { type: 'number', minimum: 0.25, exclusiveMaximum: 1.5 },
    ['0.25', '0.3', '1', '1.49'],
    ['0.24', '0', '1.5', '2'],
  ],
  [
    'negative decimal bounds',
    { type: 'number', minimum: -1.5, maximum: -0.5 },
    ['-1.5', '-0.5', '-1'],
    ['-0.4', '-1.6', '1', '0'],
  ],
  [
    'small bounds',
    { type: 'number', exclusiveMinimum: 0, maximum: 1e-7 },
    ['0.0000001', '0.00000001'],
    ['0', '0.0000002'],
  ],
  ['keywords of other types', { type: 'string', minimum: 5, items: false }, ['"a"'], ['5']],
  [
    'a recursive schema beside others',
    {
      allOf: [tree],
      type: ['object', 'null'],
      $defs: { node: { type: 'object', properties: { next: tree }, required: ['next'] } },
    },
    ['null', '{"next":null}', '{"next":{"next":null}}'],
    ['{}'],
  ],
  ['anchors', { $ref: '#x', $defs: { a: { $anchor: 'x', const: 1 } } }, ['1'], ['2']],
  [
    'an $id beside a $ref of draft 7, which does not count',
    {
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'http://a.test/x/',
      allOf: [{ $id: 'http://a.test/', $ref: 'b.json' }],
      definitions: {
        one: { $id: 'http://a.test/x/b.json', const: 1 },
        two: { $id: 'http://a.test/b.json', const: 2 },
      },
    },
    ['1'],
    ['2'],
  ],
  [
    'references within a schema that has an $id',
    {
      $ref: 'inner',
      $defs: { a: { $id: 'inner', $ref: '#/$defs/b', $defs: { b: { const: 1 } } }, b: { const: 2 } },
    },
    ['1'],
    ['2'],
  ],
];

describe('keywords that hold together', () => {
  it.each(enforced)('are enforced: %s', async (_what, schema, admitted, refused) => {
    for (const text of admitted) expect(await admits({ type: 'json_schema', schema }, text), text).toBe(true);
    for (const text of refused) expect(await admits({ type: 'json_schema', schema }, text), text).toBe(false);
  });

  it.each<[code: string, schema: JsonSchema]>([
    [
      'grammar_too_large',
      {
        allOf: Array.from({ length: 20 }, (_, at) => ({
          anyOf: [{ required: [`a${at}`] }, { required: [`b${at}`] }],
        })),
      },
    ],
    ['grammar_too_large', { type: 'string', pattern: 'a.{60}$', minLength: 100 }],
    [
      'schema_unsupported',
      { patternProperties: Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`^${at}`, {}])) },
    ],
  ])('are refused if they need too much: %s', async (code, schema) => {
    const error = await compiler
      .compile(textOf({ type: 'json_schema', schema }))
      .catch((reason: unknown) => reason);
    expect(MartingaleError.isInstance(error) ? error.code : error).toBe(code);
  });

  it('are refused by their place, and with the length that may be left out', async () => {
    const items = { type: 'string', maxLength: 253, pattern: 'a[ab]{14}$' };
    const schema = { type: 'object', properties: { domains: { type: 'array', items } } };
    await expect(compiler.compile(textOf({ type: 'json_schema', schema }))).rejects.toThrow(
      /#\/properties\/domains\/items: Patterns, formats and lengths .* leave maxLength out/,
    );
    const { maxLength: _, ...free } = items;
    expect(await admits({ type: 'json_schema', schema: free }, '"abbbbbbbbbbbbbb"')).toBe(true);
  });
});
