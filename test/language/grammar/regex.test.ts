import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { admits, compiler, format, randomChooser, SEED, textOf, tokenizer, walk } from './support.ts';

const patterns = [
  'a',
  '[a-z]+@[a-z]{2,5}\\.(?:com|org)',
  '(yes|no|maybe)(, (sir|madam))?',
  '\\d{3}-\\d{4}',
  '[^a-c\\d]{1,3}',
  'é|è|ê|ë',
  '[à-ü]{2}',
  '[\\u{1F600}-\\u{1F64F}]',
  '(?<year>\\d{4})-(?:0[1-9]|1[0-2])',
  'x*?y+?',
  '\\w+ \\W\\S',
  '[\\]\\\\^-]+',
  '.{0,4}',
  'a{2,}b{0,2}c{3}',
  '(a|ab)(c|bcd)(d*)',
  '\\x41\\u0042\\/\\.',
  '[\\s\\S]{1,2}',
];

/** Generators of texts do not know these. */
const asserting = [
  '(?=.*[A-Z])(?=.*\\d).{3,}',
  '(?!-)[a-d-]+(?<!-)',
  '(?!.*--)[a-d,-]*',
  '((?!ab)(?!AB).)*',
  '(?!ab$|c).*',
  '(?=[^@]+$)(?=(.*\\d)).+',
  '.*(?<=a|^b)\\d',
  '.?\\b[ab]+\\b.*',
  '.*\\B[ab]',
  '(.*,|^)a($|,.*)',
  '(a(?=b)|b(?!.?b)|c)*',
  '(?:(?=(?!a)[a-c])[^c])+\\d?',
];

it.each(patterns)('a regular expression allows what it matches: %s', async (pattern) => {
  const oracle = new RegExp(`^(?:${pattern})$`, 'u');
  await fc.assert(
    fc.asyncProperty(fc.stringMatching(oracle), async (text) => {
      expect(await admits({ type: 'regex', pattern }, text), JSON.stringify(text)).toBe(true);
    }),
    { seed: SEED, numRuns: 50 },
  );
});

describe.each([...patterns, ...asserting])('the grammar of a regular expression: %s', (pattern) => {
  const oracle = new RegExp(`^(?:${pattern})$`, 'u');

  it('agrees with it on other texts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom(...'abcdyx0189-é.,/A BCom@\n'), maxLength: 6 }),
        async (text) => {
          expect(await admits({ type: 'regex', pattern }, text), JSON.stringify(text)).toBe(
            oracle.test(text),
          );
        },
      ),
      { seed: SEED, numRuns: 150 },
    );
  });

  it('samples nothing else', async () => {
    const compiled = await compiler.compile(textOf({ type: 'regex', pattern }));
    // Their automata are large, and each walk reaches new states.
    const walks = asserting.includes(pattern) ? 10 : 50;
    for (let seed = 0; seed < walks; seed++) {
      const tokens = walk(compiled, randomChooser(seed), 300);
      if (tokens.at(-1) !== format.endToken) continue;
      const text = tokenizer.decode(tokens);
      expect(oracle.test(text), JSON.stringify(text)).toBe(true);
    }
  });
});

describe('the grammar of a regular expression', () => {
  it('reads a hyphen next to a class as a literal', async () => {
    expect(await admits({ type: 'regex', pattern: '[\\w-.]+' }, 'a-b.c')).toBe(true);
    expect(await admits({ type: 'regex', pattern: '[\\w-.]+' }, 'a/b')).toBe(false);
  });

  it('matches the whole text, so anchors at its ends have no effect', async () => {
    expect(await admits({ type: 'regex', pattern: '^ab$|^c' }, 'ab')).toBe(true);
    expect(await admits({ type: 'regex', pattern: '^ab$|^c' }, 'cd')).toBe(false);
  });

  it.each([
    '(a)\\1',
    '\\p{L}',
    '(?<=a(?!b))c',
    '(?=a',
    'a**',
    'a)',
    '(a',
    '[a',
    '[z-a]',
    '[]',
    'a{3,1}',
    'a\\',
  ])('refuses unsupported syntax: %s', async (pattern) => {
    await expect(compiler.compile(textOf({ type: 'regex', pattern }))).rejects.toMatchObject({
      code: 'regex_unsupported',
      message: expect.stringContaining(JSON.stringify(pattern)),
    });
  });

  it('refuses an expression that no text matches, and look-ahead with too many states', async () => {
    const refusal = (pattern: string) => compiler.compile(textOf({ type: 'regex', pattern }));
    await expect(refusal('a^b')).rejects.toMatchObject({ code: 'grammar_empty' });
    await expect(refusal('(?=a)b')).rejects.toMatchObject({ code: 'grammar_empty' });
    await expect(refusal('(?=.*a.{20}$).*b.{19}')).rejects.toMatchObject({ code: 'grammar_too_large' });
  });

  it('refuses counts that need too much memory', async () => {
    await expect(
      compiler.compile(textOf({ type: 'regex', pattern: '[a-z]{9000}'.repeat(25) })),
    ).rejects.toMatchObject({
      code: 'grammar_too_large',
    });
  });
});
