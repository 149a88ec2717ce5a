import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import type { Grammar, JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { writtenCall, writtenPython } from '../../support/written-call.ts';
import { makeLargeVocabulary } from './large-vocabulary.ts';
import { admits, compiler, format, randomChooser, SEED, textOf, tokenizer, walk } from './support.ts';

const grammarOf = (schema: JsonSchema) => ({ type: 'json_schema' as const, schema });
const setOf = (items: unknown, more: JsonSchema = {}): JsonSchema => ({
  type: 'array',
  items,
  uniqueItems: true,
  ...more,
});

const names = ['a', 'ab', 'abc', 'b', 'bc', 'c', 'cab', 'd', 'da', 'e'];
const pair = { type: 'object', properties: { y: { type: 'boolean' }, x: { enum: [1, 2] } }, required: ['x'] };

/** Sets as tools have them, each with a generator of items. */
const sets: [what: string, schema: JsonSchema, items: fc.Arbitrary<unknown>][] = [
  [
    'texts',
    setOf({ type: 'string' }),
    fc.string({ unit: fc.constantFrom('a', '"', '\\', 'é', '\n'), maxLength: 2 }),
  ],
  ['an enum', setOf({ enum: names }), fc.constantFrom(...names)],
  ['integers', setOf({ type: 'integer' }), fc.integer({ min: -12, max: 12 })],
  ['integers between bounds', setOf({ type: 'integer', minimum: 0, maximum: 11 }), fc.nat(11)],
  ['numbers', setOf({ type: 'number' }), fc.integer({ min: -15, max: 15 }).map((value) => value / 10)],
  [
    'numbers with a bound',
    setOf({ type: 'number', minimum: -1 }),
    fc.integer({ min: -9, max: 9 }).map((one) => one / 10),
  ],
  ['truth values', setOf({ type: 'boolean' }), fc.boolean()],
  [
    'texts or null',
    setOf({ anyOf: [{ type: 'string' }, { type: 'null' }] }),
    fc.constantFrom('a', 'b', '', null),
  ],
  ['lists', setOf({ type: 'array', items: { type: 'boolean' } }), fc.array(fc.boolean(), { maxLength: 2 })],
  ['sets', setOf(setOf({ enum: ['a', 'b', 'c'] })), fc.uniqueArray(fc.constantFrom('a', 'b', 'c'))],
  [
    'objects',
    setOf({ ...pair, additionalProperties: false }),
    fc.oneof(
      fc.record({ x: fc.constantFrom(1, 2) }, { noNullPrototype: true }),
      fc.record({ x: fc.constantFrom(1, 2), y: fc.boolean() }, { noNullPrototype: true }),
    ),
  ],
  [
    'any values',
    setOf({}),
    fc.constantFrom<unknown>('1', 1, 1.5, true, null, [], [1], {}, { a: 1 }, { a: '1' }),
  ],
];

describe.each(sets)('an array of different items: %s', (_, schema, items) => {
  const isValid = new Ajv2020({ strict: false }).compile(schema);

  it('may be any that is valid, and no other', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(items, { maxLength: 6 }), async (value) => {
        const json = JSON.stringify(value);
        expect(await admits(grammarOf(schema), json), json).toBe(isValid(value));
      }),
      { seed: SEED, numRuns: 60 },
    );
  });

  it.each([undefined, ' ?'])('is what is sampled, with white space %s', async (whitespace) => {
    const compiled = await compiler.compile(
      textOf({ ...grammarOf(schema), ...(whitespace === undefined ? {} : { whitespace }) }),
    );
    let whole = 0;
    for (let seed = 0; seed < 30; seed++) {
      const tokens = walk(compiled, randomChooser(seed), 300);
      if (tokens.at(-1) !== format.endToken) continue;
      whole++;
      const json = tokenizer.decode(tokens);
      expect(isValid(JSON.parse(json)), json).toBe(true);
    }
    expect(whole).toBeGreaterThan(10);
  });
});

describe('an array of different items', () => {
  it.each<[what: string, schema: JsonSchema, admitted: string[], refused: string[]]>([
    [
      'ends when all items are written, and not before its least number',
      setOf({ enum: ['ab', 'ac', 'b'] }, { minItems: 3 }),
      ['["ab","ac","b"]', '["b","ac","ab"]'],
      ['["ab","ac"]', '["ab","b","ab"]', '[]'],
    ],
    [
      'is bounded by maxItems',
      setOf({ type: 'integer' }, { maxItems: 2 }),
      ['[1,2]', '[]'],
      ['[1,2,3]', '[1,1]'],
    ],
    [
      'knows 1.0 as 1, and objects in any order',
      setOf({
        anyOf: [
          { type: 'number' },
          { properties: { a: { const: 1 }, b: { const: 2 } } },
          { properties: { b: { const: 2 }, a: { const: 1 } } },
          { const: { b: 2, a: 1 } },
        ],
      }),
      ['[1,{"a":1,"b":2}]', '[1,1.5]', '[10,1]'],
      ['[1,1.0]', '[1.0]', '[1,1e0]', '[{"a":1,"b":2},{"b":2,"a":1}]', '[{"b":2,"a":1}]'],
    ],
    [
      'has numbers of constants in one form',
      setOf({ anyOf: [{ const: 1e-7 }, { type: 'number' }] }),
      ['[0.0000001,1]', '[0.1]'],
      ['[1e-7]', '[0.0000001,0.0000001]'],
    ],
    [
      'is beside one that is not',
      { anyOf: [{ const: ['a', 'a'] }, setOf({ enum: ['a', 'b'] })] },
      ['["a","a"]', '["a","b"]', '["a"]'],
      ['["b","b"]', '["a","b","a"]'],
    ],
    [
      'begins each time anew',
      { type: 'array', items: setOf({ enum: ['a', 'b'] }) },
      ['[["a"],["a","b"],["a","b"]]'],
      ['[["a"],["a","a"]]'],
    ],
  ])('%s', async (_what, schema, admitted, refused) => {
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    for (const text of admitted) {
      expect(isValid(JSON.parse(text)), text).toBe(true);
      expect(await admits(grammarOf(schema), text), text).toBe(true);
    }
    for (const text of refused) expect(await admits(grammarOf(schema), text), text).toBe(false);
  });

  it.each([
    ['JSON', writtenCall],
    ['Python', writtenPython],
  ])('is sampled in the arguments of a call in %s', async (_, written) => {
    const schema = {
      type: 'object',
      properties: { tags: setOf({ enum: names }, { minItems: 4 }) },
      required: ['tags'],
    };
    const grammar: Grammar = { type: 'named_json', alternatives: [{ name: 'f', schema }], written };
    const compiled = await compiler.compile(textOf(grammar));
    for (let seed = 0; seed < 20; seed++) {
      const call = tokenizer.decode(walk(compiled, randomChooser(seed)));
      const tags: unknown[] = JSON.parse(/\[[^<]*?\]/.exec(call.slice(call.indexOf('tags')))?.[0] ?? '');
      expect(tags.length).toBeGreaterThan(3);
      expect(new Set(tags).size, call).toBe(tags.length);
    }
  });

  it('is refused if it cannot have so many', async () => {
    for (const items of [
      { enum: ['a', 'b'] },
      { type: 'boolean' },
      { type: 'integer', minimum: 1, maximum: 2 },
    ])
      await expect(compiler.compile(textOf(grammarOf(setOf(items, { minItems: 3 }))))).rejects.toThrow(
        'with uniqueItems and minItems 3 can have only 2 different items',
      );
  });

  it('may be long, over a vocabulary whose tokens span items', async () => {
    const large = makeLargeVocabulary(20_000);
    const compiled = await new GrammarCompiler(large.tokenizer, large).compile(
      textOf(grammarOf(setOf({ type: 'string', maxLength: 12 }, { minItems: 20, maxItems: 40 }))),
    );
    for (let seed = 0; seed < 3; seed++) {
      const choose = randomChooser(seed);
      const state = compiled.start();
      const tokens: number[] = [];
      for (tokens.push(...state.takeForced()); !state.ended; tokens.push(...state.takeForced())) {
        const { ids } = state.legal();
        const token = ids[choose(ids.length)] ?? -1;
        state.accept(token);
        tokens.push(token);
      }
      const value: unknown[] = JSON.parse(large.tokenizer.decode(tokens));
      expect(new Set(value).size).toBe(value.length);
    }
  });
});
