import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { JsonStyle } from '../../../src/language/grammar/constraint.ts';
import { admits, compiler, randomChooser, SEED, schemaOf, textOf, tokenizer, walk } from './support.ts';

const jsonOf = (schema: Record<string, unknown>, style: JsonStyle = {}) =>
  ({ type: 'json_schema', schema, ...style }) as const;

const named = {
  type: 'object',
  properties: { a: { type: 'integer' }, b: { type: 'array', items: { type: 'boolean' } } },
  required: ['a'],
};

async function expectAdmitted(grammar: Parameters<typeof admits>[0], admitted: string[], refused: string[]) {
  for (const text of admitted) expect(await admits(grammar, text), text).toBe(true);
  for (const text of refused) expect(await admits(grammar, text), text).toBe(false);
}

describe('white space of JSON', () => {
  it('is allowed between any two tokens and not around the whole', async () => {
    await expectAdmitted(
      jsonOf(named, { whitespace: '[ \\n]*' }),
      ['{"a":1}', '{ "a" : 1 }', '{\n  "a": 1,\n  "b": [ true , false ]\n}', '{"a":1,"b":[ ]}'],
      [' {"a":1}', '{"a":1} ', '{"a":1 2}', '{"a":\t1}', '{"a":1,}', '{"b":[]}', '{"a ":1}'],
    );
  });

  it('is exactly what the expression matches', async () => {
    await expectAdmitted(jsonOf(named, { whitespace: ' ' }), ['{ "a" : 1 }'], ['{"a":1}', '{ "a" :  1 }']);
    await expectAdmitted(jsonOf(named, { whitespace: '' }), ['{"a":1}'], ['{ "a":1}']);
  });

  it('is allowed in constants, tuples, records and any JSON, too', async () => {
    const whitespace = ' ?';
    await expectAdmitted(
      jsonOf({ enum: [{ x: [1, {}], y: null }, 'a b'] }, { whitespace }),
      ['{"x":[1,{}],"y":null}', '{ "x" : [ 1 , { } ] , "y" : null }', '"a b"'],
      ['{"x":[1,{  }],"y":null}', '"a  b"', '"ab"'],
    );
    await expectAdmitted(
      jsonOf({ prefixItems: [{ type: 'null' }], items: { type: 'null' }, maxItems: 3 }, { whitespace }),
      ['[null]', '[ null , null ]', '[null,null,null ]'],
      ['[]', '[null,null,null,null]', '[null null]'],
    );
    await expectAdmitted(
      jsonOf({ type: 'object', additionalProperties: { type: 'null' } }, { whitespace }),
      ['{}', '{ }', '{ "q" : null , "r" : null }'],
      ['{ "q" : 1 }', '{,}'],
    );
    await expectAdmitted(
      { type: 'json_object', whitespace },
      ['{ "a" : [ 1 , { } ] }', '{}'],
      ['[ ]', '{  }'],
    );
  });

  it('is JSON white space even if the expression allows more', async () => {
    await expectAdmitted(
      jsonOf(named, { whitespace: '\\s*' }),
      ['{\t"a":\r\n1}'],
      ['{\u00a0"a":1}', '{\f"a":1}'],
    );
    await expect(compiler.compile(textOf(jsonOf(named, { whitespace: 'x*' })))).rejects.toMatchObject({
      code: 'whitespace_invalid',
    });
    await expect(compiler.compile(textOf(jsonOf(named, { whitespace: '(' })))).rejects.toMatchObject({
      code: 'regex_unsupported',
    });
  });

  it('keeps every sampled text valid JSON of its schema', async () => {
    const tree: z.ZodType = z.lazy(() =>
      z.object({ kind: z.enum(['x', 'y']), parts: z.array(tree).max(1), note: z.string().max(3).optional() }),
    );
    const compiled = await compiler.compile(textOf(jsonOf(schemaOf(tree), { whitespace: '[ \\n\\t]{0,2}' })));
    for (let seed = 0; seed < 60; seed++) {
      const json = tokenizer.decode(walk(compiled, randomChooser(seed)));
      expect(tree.safeParse(JSON.parse(json)).success, json).toBe(true);
      expect(json).toBe(json.trim());
    }
  });
});

describe('further properties', () => {
  const open = jsonOf(named, { closed: false });

  it('are forbidden by default if the schema does not mention them', async () => {
    for (const style of [{}, { closed: true }])
      await expectAdmitted(jsonOf(named, style), ['{"a":1}'], ['{"a":1,"c":2}']);
  });

  it('follow the named ones, with any value, if objects are not closed', async () => {
    await expectAdmitted(
      open,
      [
        '{"a":1}',
        '{"a":1,"c":2}',
        '{"a":1,"b":[],"":{"x":[1]},"aa":null}',
        '{"a":1,"\\"":0,"\\u0000":0,"é":0}',
      ],
      ['{"c":2,"a":1}', '{"c":2}', '{"a":1,"a":2}', '{"a":1,"b":3}', '{"a":1,"c":2,"b":[]}', '{"a":1,}'],
    );
    await expectAdmitted(
      jsonOf({ type: 'object', properties: {} }, { closed: false }),
      ['{}', '{"x":1}'],
      ['{1}'],
    );
    await expectAdmitted(
      jsonOf({ ...named, additionalProperties: false }, { closed: false }),
      ['{"a":1}'],
      ['{"a":1,"c":2}'],
    );
  });

  it('match the schema in additionalProperties', async () => {
    const numbers = { ...named, additionalProperties: { type: 'integer', minimum: 0, maximum: 9 } };
    await expectAdmitted(
      jsonOf(numbers, { whitespace: ' ?' }),
      ['{"a":12}', '{ "a" : 12 , "c" : 7 }', '{"a":12,"b":[],"c":7,"d":0}'],
      ['{"a":12,"c":10}', '{"a":12,"c":"x"}', '{"a":12,"b":7}'],
    );
    await expectAdmitted(
      jsonOf({ ...named, additionalProperties: true }),
      ['{"a":1,"c":"x"}'],
      ['{"a":"x"}'],
    );
  });

  it('may come alone if no property is required', async () => {
    const optional = {
      properties: { a: { type: 'null' }, ab: { type: 'null' } },
      additionalProperties: true,
    };
    await expectAdmitted(
      jsonOf(optional),
      ['{}', '{"c":1}', '{"a":null}', '{"ab":null,"abc":1}', '{"a":null,"ab":null,"b":2,"c":3}'],
      ['{"ab":1}', '{"a":1}', '{,"c":1}', '{"c":1,"a":null}'],
    );
  });

  const names = ['a', 'ab', 'abc"d', 'é', 'x\\', '\n', '😀k', '__proto__'];
  const others = jsonOf({
    properties: Object.fromEntries(names.map((name) => [name, { const: 0 }])),
    additionalProperties: { const: 1 },
  });

  it('have any name that is not in the schema', async () => {
    for (const name of names) {
      expect(await admits(others, `{${JSON.stringify(name)}:1}`), name).toBe(false);
      expect(await admits(others, `{${JSON.stringify(`${name}x`)}:1}`), name).toBe(true);
    }
    const near = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: fc.constantFrom('a', 'b', 'c', '"', 'd', 'é', '\\', '\n', '😀', 'k', '_') }),
    );
    await fc.assert(
      fc.asyncProperty(near, async (name) => {
        expect(await admits(others, `{${JSON.stringify(name)}:1}`)).toBe(!names.includes(name));
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it('are never sampled with an invalid name or value', async () => {
    const compiled = await compiler.compile(textOf(others));
    for (let seed = 0; seed < 60; seed++) {
      const json = tokenizer.decode(walk(compiled, randomChooser(seed)));
      for (const [name, value] of Object.entries(JSON.parse(json)))
        expect(value, json).toBe(names.includes(name) ? 0 : 1);
    }
  });
});
