import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MartingaleError } from '../../../src/contract/index.ts';
import { admits, compiler, randomChooser, SEED, schemaOf, textOf, tokenizer, walk } from './support.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const narrowText = (bounds: fc.StringConstraints) => fc.string({ ...bounds, unit: 'binary-ascii' });

interface Leaf {
  value: string;
  children?: Leaf[] | undefined;
}
const tree: z.ZodType<Leaf> = z.lazy(() =>
  z.object({ value: z.enum(['a', 'b']), children: z.array(tree).max(2).optional() }),
);
const trees = fc.letrec<{ tree: Leaf }>((tie) => ({
  tree: fc.record(
    {
      value: fc.constantFrom('a', 'b'),
      children: fc.array(tie('tree'), { maxLength: 2, depthIdentifier: 'tree' }),
    },
    { requiredKeys: ['value'] },
  ),
})).tree;

/** Schemas as tools have them, each with a generator of values that fit. */
const cases: [name: string, type: z.ZodType, values: fc.Arbitrary<unknown>][] = [
  ['string', z.string(), text],
  ['bounded string', z.string().min(2).max(5), narrowText({ minLength: 2, maxLength: 5 })],
  ['long enough string', z.string().min(2), fc.string({ unit: 'grapheme', minLength: 2 })],
  ['pattern', z.string().regex(/^\d{4}$/), fc.stringMatching(/^[0-9]{4}$/)],
  ['unanchored pattern', z.string().regex(/[a-m]["\\]?|\n$/), text.map((around) => `${around}k"\\${around}`)],
  ['beginning', z.string().startsWith('A-'), text.map((end) => `A-${end}`)],
  ['e-mail', z.email(), fc.constantFrom('a.b@example.com', 'x@y.org', 'first.last+tag@mail.example.co')],
  ['date', z.iso.date(), fc.constantFrom('2024-02-29', '1999-12-31')],
  ['date-time', z.iso.datetime(), fc.constantFrom('2024-05-17T08:15:00Z', '2020-01-01T00:00:00.123Z')],
  ['url', z.url(), fc.constantFrom('https://example.com', 'http://www.example.org/a/b.html?c=d&e=%20f')],
  ['ipv4', z.ipv4(), fc.ipV4()],
  ['long string', z.string().max(5000), narrowText({ maxLength: 20 })],
  ['uuid', z.uuid(), fc.uuid({ version: 4 })],
  [
    'number',
    z.number(),
    fc
      .double({ noNaN: true, noDefaultInfinity: true, min: -1e20, max: 1e20, maxExcluded: true })
      .filter((value) => Math.abs(value) > 1e-6)
      .map((value) => Number(value.toPrecision(10))),
  ],
  [
    'bounded number',
    z.number().min(-2).max(10),
    fc.integer({ min: -200, max: 1000 }).map((value) => value / 100),
  ],
  [
    'positive number',
    z.number().positive().lt(3),
    fc.integer({ min: 1, max: 299 }).map((value) => value / 100),
  ],
  ['integer', z.int(), fc.maxSafeInteger()],
  ['integer range', z.int().min(-37).max(1205), fc.integer({ min: -37, max: 1205 })],
  ['boolean', z.boolean(), fc.boolean()],
  ['null', z.null(), fc.constant(null)],
  ['nullable', z.string().nullable(), fc.option(text)],
  ['literal', z.literal(['a"b', 7, true, 'é']), fc.constantFrom<unknown>('a"b', 7, true, 'é')],
  ['enum', z.enum(['re', 'refund', 'rené']), fc.constantFrom('re', 'refund', 'rené')],
  ['array', z.array(z.int().min(0).max(9)), fc.array(fc.nat(9))],
  [
    'bounded array',
    z.array(z.boolean()).min(1).max(3),
    fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
  ],
  ['empty array', z.array(z.boolean()).max(0), fc.constant([])],
  ['tuple', z.tuple([z.boolean(), z.null()]), fc.tuple(fc.boolean(), fc.constant(null))],
  [
    'open tuple',
    z.tuple([z.boolean()], z.null()),
    fc.array(fc.constant(null)).map((rest) => [true, ...rest]),
  ],
  [
    'object',
    z.object({ a: z.boolean(), 'b"c': z.null() }),
    fc.record({ a: fc.boolean(), 'b"c': fc.constant(null) }),
  ],
  ['no properties', z.object({}), fc.constant({})],
  [
    'optional properties',
    z.object({ a: z.null().optional(), b: z.null(), c: z.null().optional(), d: z.null().optional() }),
    fc.record(
      { a: fc.constant(null), b: fc.constant(null), c: fc.constant(null), d: fc.constant(null) },
      { requiredKeys: ['b'] },
    ),
  ],
  [
    'only optional properties',
    z.object({ a: z.null().optional(), b: z.null().optional() }),
    fc.record({ a: fc.constant(null), b: fc.constant(null) }, { requiredKeys: [] }),
  ],
  ['loose object', z.looseObject({ a: z.null() }), fc.constant({ a: null })],
  ['record', z.record(z.string(), z.boolean()), fc.dictionary(text, fc.boolean())],
  [
    'record of patterned keys',
    z.record(z.string().regex(/^k\d$/), z.null()),
    fc.dictionary(fc.stringMatching(/^k[0-9]$/), fc.constant(null)),
  ],
  [
    'union',
    z.union([z.boolean(), z.object({ x: z.null() })]),
    fc.oneof(fc.boolean(), fc.record({ x: fc.constant(null) })),
  ],
  [
    'discriminated union',
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('a'), n: z.boolean() }),
      z.object({ type: z.literal('b') }),
    ]),
    fc.oneof(fc.record({ type: fc.constant('a'), n: fc.boolean() }), fc.constant({ type: 'b' })),
  ],
  ['recursion', tree, trees],
  [
    'anything',
    z.json(),
    fc
      .jsonValue({ maxDepth: 3, stringUnit: 'grapheme' })
      .filter((value) => !/e[+-]\d{3}|\d{22}|\.\d{21}|-0\b/.test(JSON.stringify(value))),
  ],
];

describe.each(cases)('the grammar of a JSON schema: %s', (_name, type, values) => {
  const grammar = { type: 'json_schema' as const, schema: schemaOf(type) };

  it('allows every valid value, as JSON.stringify writes it', async () => {
    await fc.assert(
      fc.asyncProperty(values, async (value) => {
        const json = JSON.stringify(value);
        expect(await admits(grammar, json), json).toBe(true);
      }),
      { seed: SEED, numRuns: 50 },
    );
  });

  it('samples only valid values', async () => {
    const compiled = await compiler.compile(textOf(grammar));
    for (let seed = 0; seed < 60; seed++) {
      const json = tokenizer.decode(walk(compiled, randomChooser(seed)));
      const checked = type.safeParse(JSON.parse(json));
      expect(checked.success, `${json} ${checked.error?.message}`).toBe(true);
    }
  });
});

describe('the grammar of a JSON schema', () => {
  const object = {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'boolean' } },
    required: ['a', 'b'],
  };

  it('has no spaces and keeps the order of the properties', async () => {
    const grammar = { type: 'json_schema' as const, schema: object };
    expect(await admits(grammar, '{"a":1,"b":true}')).toBe(true);
    for (const other of [
      '{"a": 1,"b":true}',
      '{"b":true,"a":1}',
      '{"a":1}',
      '{"a":1,"b":true,"c":2}',
      '{"a":1,"b":true} ',
    ])
      expect(await admits(grammar, other), other).toBe(false);
  });

  it("takes zod's e-mail addresses for the format, without the apostrophes that its pattern has", async () => {
    const grammar = { type: 'json_schema' as const, schema: schemaOf(z.email()) };
    expect(await admits(grammar, '"a.b+c@example.com"')).toBe(true);
    expect(z.email().safeParse("a'b@example.com").success).toBe(true);
    expect(await admits(grammar, '"a\'b@example.com"')).toBe(false);
  });

  it('follows references into the document, also to its root', async () => {
    const schema = {
      type: 'object',
      properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] }, kind: { $ref: '#/$defs/a~1b' } },
      required: ['next', 'kind'],
      $defs: { 'a/b': { const: 'x' } },
    };
    const grammar = { type: 'json_schema' as const, schema };
    expect(await admits(grammar, '{"next":{"next":null,"kind":"x"},"kind":"x"}')).toBe(true);
    expect(await admits(grammar, '{"next":{"next":null},"kind":"x"}')).toBe(false);
  });

  it('allows type lists, and enumerations narrowed by a type', async () => {
    expect(await admits({ type: 'json_schema', schema: { type: ['boolean', 'null'] } }, 'null')).toBe(true);
    expect(await admits({ type: 'json_schema', schema: { type: 'string', enum: ['a', 1] } }, '1')).toBe(
      false,
    );
  });

  const refused: [keyword: string, schema: Record<string, unknown>][] = [
    ['multipleOf', { type: 'number', multipleOf: 3 }],
    ['multipleOf', { type: 'integer', multipleOf: 3, minimum: 0 }],
    ['multipleOf', { type: 'integer', multipleOf: 3, minimum: 0, maximum: 1e9 }],
    ['minItems', { type: 'array', uniqueItems: true, minItems: 10_001 }],
    ['uniqueItems', { type: 'array', prefixItems: [{}], items: {}, uniqueItems: true }],
    ['contains', { type: 'array', contains: { type: 'string' } }],
    ['not', { not: { items: { type: 'string' } } }],
    ['not', { type: 'integer', not: { const: 3 } }],
    ['if', { if: { contains: {} }, else: {} }],
    ['oneOf', { oneOf: [{ items: { type: 'number' } }, { items: { type: 'integer' } }] }],
    ['minProperties', { type: 'object', minProperties: 2 }],
    ['minProperties', { type: 'object', properties: { a: {} }, minProperties: 2 }],
    ['minProperties', { anyOf: [{ type: 'object', minProperties: 2 }, { type: 'string' }] }],
    ['required', { type: 'object', properties: { a: {} }, required: ['b'], additionalProperties: false }],
    ['required', { type: 'object', required: 'a' }],
    ['minLength', { type: 'string', minLength: 3, maxLength: 2 }],
    ['pattern', { type: 'string', pattern: '^a$', allOf: [{ pattern: '^b$' }] }],
    ['minimum', { type: 'integer', minimum: 5, maximum: 4 }],
    ['type', { type: 'text' }],
    ['type', { type: 'string', allOf: [{ type: 'null' }] }],
    ['enum', { enum: ['a', 'b'], minLength: 2 }],
    ['properties', { type: 'object', properties: [] }],
    ['$ref', { $ref: 'https://example.com/a.json' }],
    ['$ref', { $ref: '#/$defs/none' }],
    ['$dynamicRef', { $dynamicRef: '#node' }],
    ['minItems', { type: 'array', minItems: 3, maxItems: 2 }],
  ];
  it.each(refused)('refuses what it cannot enforce, by name: %s %j', async (keyword, schema) => {
    const error = await compiler
      .compile(textOf({ type: 'json_schema', schema }))
      .catch((reason: unknown) => reason);
    expect(MartingaleError.isInstance(error) && error.code).toBe('schema_unsupported');
    expect(String(error)).toContain(`"${keyword}"`);
  });

  it('names the path of the problem in the schema', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'array', items: { type: 'number', multipleOf: 2 } } },
    };
    await expect(compiler.compile(textOf({ type: 'json_schema', schema }))).rejects.toThrow(
      '#/properties/a/items: "multipleOf" (2)',
    );
  });
});
