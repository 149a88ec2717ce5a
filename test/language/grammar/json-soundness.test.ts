import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MartingaleError } from '../../../src/contract/index.ts';
import type { JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { admits, compiler, randomChooser, SEED, textOf, tokenizer, walk } from './support.ts';

const validatorOf = (schema: JsonSchema) =>
  new Ajv2020({ strict: false, validateFormats: false }).compile(schema);

const grammarOf = (schema: JsonSchema) => ({ type: 'json_schema' as const, schema });

/** Why a schema is refused; null if it is not. */
async function refusalOf(schema: JsonSchema): Promise<{ code: string; message: string } | null> {
  try {
    await compiler.compile(textOf(grammarOf(schema)));
    return null;
  } catch (error) {
    if (MartingaleError.isInstance(error)) return error;
    throw error;
  }
}

const k = (value: number) => ({ properties: { k: { const: value } }, required: ['k'] });

const closed = (properties: JsonSchema) => ({ type: 'object', properties, additionalProperties: false });

/** The documents of JSON:API, shortened: https://jsonapi.org/format/#document-top-level */
const documentOf = (name: string, schema: JsonSchema) => ({
  ...closed({ [name]: schema, meta: { type: 'integer' }, links: { type: 'object' } }),
  required: [name],
});
const jsonApi = {
  oneOf: ['success', 'failure', 'info'].map((name) => ({ $ref: `#/$defs/${name}` })),
  $defs: {
    success: documentOf('data', { type: 'integer' }),
    failure: documentOf('errors', { type: 'array', minItems: 1 }),
    info: documentOf('meta', { type: 'integer' }),
  },
};

describe('a schema of oneOf', () => {
  it.each<[what: string, schema: JsonSchema, forbidden: unknown]>([
    [
      'too many properties',
      { oneOf: [{ type: 'object', minProperties: 2 }, { type: 'object' }] },
      { a: 1, b: 2 },
    ],
    [
      'equal items',
      { oneOf: [{ not: { uniqueItems: true } }, { type: 'array', items: { type: 'integer' } }] },
      [1, 1],
    ],
    [
      'decimal numbers',
      {
        oneOf: [
          { not: { type: ['string', 'boolean', 'null', 'object', 'array', 'integer'] } },
          { type: 'number' },
        ],
      },
      1.5,
    ],
    [
      'a character of two units',
      { oneOf: [{ type: 'string', maxLength: 1, pattern: '^😀$' }, { type: 'string' }] },
      '😀',
    ],
  ])('that cannot be written still excludes what the others allow: %s', async (_what, schema, forbidden) => {
    expect(validatorOf(schema)(forbidden)).toBe(false);
    if (await refusalOf(schema)) return;
    expect(await admits(grammarOf(schema), JSON.stringify(forbidden))).toBe(false);
  });

  it.each<[what: string, schema: JsonSchema, admitted: unknown[], forbidden: unknown[]]>([
    [
      'that is false does not count',
      { oneOf: [false, { type: 'object', properties: { a: {} } }] },
      [{ a: 1 }],
      ['a'],
    ],
    [
      'of another type than what is beside it does not count',
      { type: 'object', oneOf: [{ type: 'array', contains: { const: 1 } }, k(1)] },
      [{ k: 1 }],
      [{ k: 2 }, [1]],
    ],
    [
      'that is told from others by a property allows objects alone',
      { type: ['object', 'string'], oneOf: [k(1), k(2)] },
      [{ k: 1 }, { k: 2 }],
      ['abc', { k: 3 }],
    ],
    [
      'that names its type beside one that does not',
      { type: ['object', 'string'], oneOf: [{ type: 'object', ...k(1) }, k(2)] },
      [{ k: 1 }, { k: 2 }, 'abc'],
      [{ k: 3 }],
    ],
    [
      'that is told from others by a property of a property',
      { oneOf: [1, 2].map((one) => ({ type: 'object', properties: { p: k(one) }, required: ['p'] })) },
      [{ p: { k: 1 } }, { p: { k: 2 } }],
      [{ p: 'x' }, { p: {} }],
    ],
    [
      'of closed objects, one of which requires what others only allow',
      jsonApi,
      [
        { data: 1 },
        { data: 1, meta: 2 },
        { errors: ['x'] },
        { errors: ['x'], meta: 2, links: {} },
        { meta: 2 },
        { meta: 2, links: {} },
      ],
      [{}, { links: {} }, { data: 1, errors: ['x'] }, { meta: 'x' }, { data: 1, meta: 'x' }],
    ],
    [
      'of closed objects without a required property',
      { oneOf: ['foo', 'bar'].map((name) => closed({ [name]: { type: 'string' } })) },
      [{ foo: 'a' }, { bar: 'b' }],
      [{}, { foo: 1 }, { foo: 'a', bar: 'b' }],
    ],
    [
      'of closed objects that share what they require',
      {
        type: 'array',
        items: {
          oneOf: ['foo', 'bar'].map((name) => ({
            ...closed({ id: { type: 'integer' }, [name]: { type: 'array', items: { type: 'integer' } } }),
            required: ['id'],
          })),
        },
      },
      [
        [
          { id: 1, foo: [] },
          { id: 1, bar: [2] },
        ],
        [],
      ],
      [[{ id: 1 }], [{ foo: [] }], [{ id: 1, foo: [], bar: [] }]],
    ],
    [
      'of many, few of which overlap',
      {
        oneOf: [
          { type: 'integer', minimum: 3 },
          { type: 'integer', maximum: 5 },
          ...Array.from({ length: 20 }, (_, value) => ({ type: 'object', ...k(value) })),
        ],
      },
      [2, 6, { k: 19 }],
      [3, 5, { k: 20 }],
    ],
    [
      'of integers and of numbers with a bound',
      { oneOf: [{ type: 'integer' }, { minimum: 2 }] },
      [1, -7, 2.5, 1234.000001],
      [2, 3, 1.5, 1e20],
    ],
    [
      'of numbers and of integers',
      { oneOf: [{ type: 'number' }, { type: 'integer' }] },
      [1.5, -0.1],
      [1, -2, 0],
    ],
    [
      'of integers and of other numbers between two bounds',
      {
        type: 'object',
        properties: { a: { oneOf: [{ type: 'integer' }, { type: 'number', minimum: -1.5, maximum: 2 }] } },
      },
      [{ a: 5 }, { a: -1.5 }, { a: -0.25 }, { a: 1.999 }, {}],
      [{ a: 0 }, { a: 2 }, { a: 2.5 }, { a: -1 }],
    ],
    ['of everything but integers', { not: { type: 'integer' } }, [1.5, 'a', null, { a: 1 }, [1]], [1, 0, -3]],
  ])('%s', async (_what, schema, admitted, forbidden) => {
    const isValid = validatorOf(schema);
    for (const value of admitted) {
      expect(isValid(value)).toBe(true);
      expect(await admits(grammarOf(schema), JSON.stringify(value)), JSON.stringify(value)).toBe(true);
    }
    for (const value of forbidden) {
      expect(isValid(value)).toBe(false);
      expect(await admits(grammarOf(schema), JSON.stringify(value)), JSON.stringify(value)).toBe(false);
    }
  });
});

describe('a schema that is malformed', () => {
  it.each<[keyword: string, schema: JsonSchema]>([
    ['not', { not: { type: 'strin' } }],
    ['not', { type: 'string', not: { enum: 'x' } }],
    ['not', { type: 'string', not: { pattern: 5 } }],
    ['not', { type: 'object', not: { required: [5] } }],
    ['not', { type: 'object', not: { required: 'a' } }],
    ['not', { not: { anyOf: [] } }],
    ['if', { if: { type: 'strin' }, else: { type: 'string' } }],
    ['type', { enum: ['x'], not: { type: 'strin' } }],
    ['enum', { const: 'x', not: { enum: 'x' } }],
    ['required', { const: { a: 1 }, not: { required: 'a' } }],
    ['properties', { const: { a: 1 }, properties: [] }],
    ['pattern', { const: 'x', not: { pattern: 5 } }],
  ])('is refused by name: %s %j', async (keyword, schema) => {
    const error = await refusalOf(schema);
    expect(error?.code).toBe('schema_unsupported');
    expect(error?.message).toContain(`"${keyword}"`);
  });

  it('is refused where a constant may only be valid without a format', async () => {
    const error = await refusalOf({ enum: ['2016-12-31T23:59:60Z'], not: { format: 'date-time' } });
    expect(error?.message).toContain('"format" ("date-time") cannot be checked within not');
  });
});

describe('a small schema with many ways through it', () => {
  const levels = 60;
  const chain = (layer: (next: JsonSchema, level: number) => JsonSchema, last: JsonSchema) =>
    Object.fromEntries(
      Array.from({ length: levels + 1 }, (_, at) => [
        `r${at}`,
        at < levels ? layer({ $ref: `#/$defs/r${at + 1}` }, at) : last,
      ]),
    );
  const twice = chain((next) => ({ allOf: [next, next] }), { type: 'integer' });
  const members = chain((next) => ({ properties: { a: next, b: next } }), { type: 'string' });

  const sameNames = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`p${at}`, {}]));
  const longName = 'a name that is in all objects'.repeat(10);
  const openObjects = Object.keys(sameNames).map((name, at) => [
    `o${at}`,
    { properties: { ...sameNames, [longName]: {} }, required: [name], additionalProperties: true },
  ]);

  it.each<[what: string, schema: JsonSchema, admitted: unknown, forbidden: unknown]>([
    ['allOf', { $ref: '#/$defs/r0', $defs: twice }, 1, 'a'],
    ['enum beside allOf', { enum: [1, 'a'], allOf: [{ $ref: '#/$defs/r0' }], $defs: twice }, 1, 'a'],
    [
      'properties within not',
      {
        type: ['string', 'object'],
        not: { allOf: [{ type: 'object' }, { $ref: '#/$defs/r0' }] },
        $defs: members,
      },
      'a',
      { a: {} },
    ],
    [
      'the same names in many open objects',
      { properties: Object.fromEntries(openObjects) },
      { o7: { p7: 1 } },
      { o7: { p6: 1 } },
    ],
    ['a pattern beside enum', { enum: ['aa', `${'a'.repeat(60)}!`], pattern: '^(a+)+$' }, 'aa', 'a!'],
    [
      'a pattern of names',
      {
        properties: { aa: {}, [`${'a'.repeat(60)}!`]: { const: 1 } },
        patternProperties: { '^(a+)+$': { const: 2 } },
      },
      { aa: 2 },
      { aa: 1 },
    ],
  ])('is compiled: %s', { timeout: 20_000 }, async (_what, schema, admitted, forbidden) => {
    expect(await admits(grammarOf(schema), JSON.stringify(admitted))).toBe(true);
    expect(await admits(grammarOf(schema), JSON.stringify(forbidden))).toBe(false);
  });
});

/** Keywords of a few values, which often meet. */
const plain: Record<string, fc.Arbitrary<unknown>> = {
  type: fc.constantFrom<unknown>('string', 'integer', 'number', 'object', 'array', [
    'string',
    'object',
    'null',
  ]),
  const: fc.constantFrom<unknown>(0, 1, 'a', null, { a: 0 }),
  enum: fc.constant([0, 'a', 'ab', { a: 'a' }, []]),
  minimum: fc.integer({ min: -1, max: 1 }),
  minLength: fc.nat(2),
  maxLength: fc.nat(2),
  pattern: fc.constantFrom('^a', 'b$', '^[ab]*$'),
  required: fc.constantFrom(['a'], ['b'], ['a', 'b']),
  additionalProperties: fc.constantFrom<unknown>(true, false, { type: 'integer' }),
  minProperties: fc.nat(2),
  uniqueItems: fc.boolean(),
  items: fc.constantFrom<unknown>({ type: 'integer' }, { const: 1 }),
};

/** Schemas of up to three keywords, with schemas so deep within them. */
function schemasOf(depth: number): fc.Arbitrary<JsonSchema> {
  if (depth === 0) return chosen(plain);
  const inner = schemasOf(depth - 1);
  const list = fc.array(inner, { minLength: 1, maxLength: 3 });
  const combining = { oneOf: list, anyOf: list, allOf: list, not: inner, if: inner, else: inner };
  return chosen({
    ...plain,
    ...combining,
    properties: fc.record({ a: inner, b: inner }, { requiredKeys: [] }),
  });
}

const chosen = (keywords: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<JsonSchema> =>
  fc
    .shuffledSubarray(Object.entries(keywords), { minLength: 1, maxLength: 3 })
    .chain((kept) => fc.record(Object.fromEntries(kept), { noNullPrototype: true }));

/** Ends texts that may go on for ever. */
const maxTokens = 30;

describe('a schema of keywords that hold together in any way', () => {
  it('admits only what is valid, if it is not refused', async () => {
    let compiledCount = 0;
    await fc.assert(
      fc.asyncProperty(schemasOf(2), fc.nat(), async (schema, seed) => {
        if (await refusalOf(schema)) return;
        compiledCount++;
        const compiled = await compiler.compile(textOf(grammarOf(schema)));
        const isValid = validatorOf(schema);
        for (let walkAt = 0; walkAt < 3; walkAt++) {
          const tokens = walk(compiled, randomChooser(seed + walkAt), maxTokens);
          if (tokens.length >= maxTokens) continue;
          const json = tokenizer.decode(tokens);
          expect(isValid(JSON.parse(json)), json).toBe(true);
        }
      }),
      { seed: SEED, numRuns: 40 },
    );
    expect(compiledCount).toBeGreaterThan(10);
  });
});
