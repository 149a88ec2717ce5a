import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { admits, compiler, format, randomChooser, SEED, textOf, tokenizer, walk } from './support.ts';

const grammarOf = (schema: JsonSchema) => ({ type: 'json_schema' as const, schema });

/** A host name as a tool of firecrawl's MCP server has it: with its length it would have some 50,000 states. */
const domain = {
  type: 'string',
  minLength: 1,
  maxLength: 253,
  pattern: '^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$',
};
const label = 'a'.repeat(62);

describe('a text whose length is counted apart from its pattern', () => {
  it.each<[what: string, schema: JsonSchema, admitted: unknown[], refused: unknown[]]>([
    [
      'a host name',
      domain,
      ['firecrawl.dev', 'www.example.co.uk', `${`${label}.`.repeat(4)}b0`.slice(1), `${label}.${label}`],
      ['localhost', '-a.bc', `${`${label}.`.repeat(4)}b0`, `${label}aa.bc`, ''],
    ],
    [
      'a long text',
      { type: 'string', minLength: 2, maxLength: 600 },
      ['ab', 'é"'.repeat(300), `${'\u0001'.repeat(599)}\\`],
      ['a', 'x'.repeat(601), '\u0001'.repeat(601), '€'.repeat(601)],
    ],
    ['a very long text', { type: 'string', maxLength: 1e12 }, ['', 'x'.repeat(1500)], [1]],
    [
      'a run of characters',
      { type: 'string', pattern: '^[a-f"]+$', maxLength: 700 },
      ['abc"', 'f'.repeat(700), '"'.repeat(700)],
      ['', 'g', 'f'.repeat(701)],
    ],
    [
      'words that must be whole',
      { type: 'string', pattern: '^(alpha|beta|gamma)(,(alpha|beta|gamma)){0,80}$', maxLength: 300 },
      [
        'beta',
        ['alpha', ...Array.from({ length: 59 }, () => 'beta')].join(),
        Array.from({ length: 60 }, () => 'beta').join(),
      ],
      [Array.from({ length: 61 }, () => 'beta').join(), 'bet', 'alpha,'],
    ],
  ])('%s', async (_what, schema, admitted, refused) => {
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    for (const value of admitted) {
      expect(isValid(value), JSON.stringify(value)).toBe(true);
      expect(await admits(grammarOf(schema), JSON.stringify(value)), JSON.stringify(value)).toBe(true);
    }
    for (const value of refused) {
      expect(isValid(value), JSON.stringify(value)).toBe(false);
      expect(await admits(grammarOf(schema), JSON.stringify(value)), JSON.stringify(value)).toBe(false);
    }
  });

  it('admits what is valid up to its last character, and nothing else', async () => {
    const schema = { type: 'string', pattern: '^(?:[ab]{1,40}\\.)+(?:[ab"]{3}\\n?)*$', maxLength: 70 };
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    const part = fc.stringMatching(/^[ab]{1,40}\.$/);
    const rest = fc.stringMatching(/^(?:[ab"]{3}\n?){0,9}.?$/);
    await fc.assert(
      fc.asyncProperty(fc.tuple(part, part, rest), async (parts) => {
        const text = parts.join('');
        expect(await admits(grammarOf(schema), JSON.stringify(text)), text).toBe(isValid(text));
      }),
      { seed: SEED, numRuns: 100 },
    );
  });

  it.each([domain, { type: 'string', pattern: '^(?:[a-z]{5,90}-)+z$', maxLength: 100 }])(
    'ends in time: %j',
    async (schema) => {
      const isValid = new Ajv2020({ strict: false }).compile(schema);
      const compiled = await compiler.compile(textOf(grammarOf(schema)));
      for (let seed = 0; seed < 30; seed++) {
        const tokens = walk(compiled, randomChooser(seed), 2000);
        expect(tokens.at(-1)).toBe(format.endToken);
        const text = tokenizer.decode(tokens);
        expect(isValid(JSON.parse(text)), text).toBe(true);
      }
    },
  );

  it('is refused if every text is longer', async () => {
    const schema = { type: 'string', pattern: '^[a-z]{90}(?:[a-z]{5,90}-)+$', maxLength: 95 };
    await expect(compiler.compile(textOf(grammarOf(schema)))).rejects.toThrow('allow no string');
  });
});
