import { describe, expect, it } from 'vitest';
import { MartingaleError } from '../../../src/contract/index.ts';
import type { Grammar } from '../../../src/language/grammar/constraint.ts';
import { compiler, randomChooser, textOf, walk } from './support.ts';

const regex = (pattern: string): Grammar => ({ type: 'regex', pattern });
const ebnf = (grammar: string): Grammar => ({ type: 'ebnf', grammar });
const schema = (of: Record<string, unknown>): Grammar => ({ type: 'json_schema', schema: of });
const format = (of: Record<string, unknown>): Grammar => ({ type: 'structural_tag', tag: { format: of } });
const choice = (choices: string[]): Grammar => ({ type: 'choice', choices });
const numbered = <T>(count: number, item: (index: number) => T) =>
  Array.from({ length: count }, (_, at) => item(at));
const wrapped = (times: number, open: string, inside: string, close: string) =>
  open.repeat(times) + inside + close.repeat(times);
function nested(depth: number, layer: (inner: Record<string, unknown>) => Record<string, unknown>) {
  let result: Record<string, unknown> = { type: 'null' };
  for (let level = 0; level < depth; level++) result = layer(result);
  return result;
}

/** Samples the beginning of a text, to create states as well as graphs. */
async function sample(grammar: Grammar): Promise<void> {
  walk(await compiler.compile(textOf(grammar)), randomChooser(1), 40);
}

describe('a grammar that needs too much time or memory', () => {
  it.each<[what: string, code: string, grammar: Grammar]>([
    ['a regular expression of a million characters', 'grammar_too_large', regex('a'.repeat(1_000_000))],
    ['groups in groups', 'regex_unsupported', regex(wrapped(90_000, '(', 'a', ')'))],
    ['doubling repetitions', 'grammar_too_large', regex(wrapped(100, '(', 'a', ')+'))],
    ['long classes again and again', 'grammar_too_large', regex('[^a]{9999}'.repeat(20))],
    ['a text that is forced for ever', 'grammar_endless', regex('((a{1000}){1000}){1000}')],
    ['a megabyte of choices', 'grammar_too_large', choice(numbered(100_000, (index) => `word ${index}`))],
    ['one choice of a megabyte', 'grammar_too_large', choice(['x'.repeat(1_000_000)])],
    ['a deep schema', 'grammar_too_large', schema(nested(100_000, (items) => ({ items })))],
    ['a schema of itself', 'grammar_empty', schema({ $ref: '#' })],
    [
      'schemas of each other',
      'grammar_empty',
      schema({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }),
    ],
    ['a long array', 'grammar_too_large', schema({ type: 'array', minItems: 1e9, items: { type: 'null' } })],
    ['a long string', 'grammar_too_large', schema({ type: 'string', minLength: 1e15 })],
    [
      'many alternatives to compare',
      'schema_unsupported',
      schema({ oneOf: numbered(20_000, (value) => ({ const: value })) }),
    ],
    [
      'many names to tell others from',
      'grammar_too_large',
      schema({
        additionalProperties: true,
        properties: Object.fromEntries(numbered(9_000, (index) => [`name ${index}`, { type: 'null' }])),
      }),
    ],
    ['a grammar of a million characters', 'grammar_too_large', ebnf(`root ::= "${'a'.repeat(1_000_000)}"`)],
    ['groups in groups in GBNF', 'ebnf_invalid', ebnf(`root ::= ${wrapped(90_000, '(', '"a"', ')')}`)],
    [
      'a long excluded string',
      'grammar_too_large',
      format({ type: 'any_text', excludes: ['ab'.repeat(80_000)] }),
    ],
    [
      'excluded strings that hold each other',
      'grammar_too_large',
      format({
        type: 'any_text',
        excludes: numbered(300, (at) => String.fromCodePoint(97 + at) + 'a'.repeat(400)),
      }),
    ],
    [
      'formats in formats',
      'grammar_too_large',
      format(nested(1_000, (content) => ({ type: 'star', content }))),
    ],
  ])('is refused for %s', async (_what, code, grammar) => {
    const error = await sample(grammar).catch((reason: unknown) => reason);
    expect(MartingaleError.isInstance(error) ? error.code : error).toBe(code);
  });

  it.each<[what: string, grammar: Grammar]>([
    ['repetitions of repetitions of what may be empty', regex('(((a?){1000}){1000}){1000}')],
    ['optional repetitions of optional repetitions', regex('((\\w{0,100}\\s?){0,100}x?){0,100}')],
    ['repetitions of nothing', regex(wrapped(6, '(', '', '){10000}'))],
    ['stars of stars', regex(`${wrapped(100, '(', 'a', ')*')}b`)],
    ['many places to be at', regex('.*a.{200}')],
    ['thousands of groups', regex('(?:ab?)'.repeat(5_000))],
    [
      'thousands of alternatives, repeated',
      regex(`(?:${numbered(9_000, (at) => at + 1_000).join('|')}){0,1000}`),
    ],
    ['thousands of equal choices', choice(numbered(20_000, () => 'ab'))],
    ['a hundred thousand empty choices', choice(numbered(100_000, () => ''))],
    [
      'thousands of optional properties',
      schema({ properties: Object.fromEntries(numbered(1_000, (at) => [`k${at}`, { type: 'null' }])) }),
    ],
    [
      'hundreds of alternatives to compare',
      schema({ oneOf: numbered(900, (value) => ({ const: `k${value}` })) }),
    ],
    ['deep objects', schema(nested(130, (a) => ({ type: 'object', properties: { a }, required: ['a'] })))],
    ['deep arrays', schema(nested(380, (items) => ({ type: 'array', items })))],
    ['deep alternatives', schema(nested(190, (inner) => ({ anyOf: [inner, { type: 'boolean' }] })))],
    ['long arrays of long arrays', schema(nested(4, (items) => ({ type: 'array', maxItems: 1_000, items })))],
    ['white space of white space', { type: 'json_object', whitespace: '(( {0,100})*\\n{0,100}){0,100}' }],
    ['deep groups in GBNF', ebnf(`root ::= ${wrapped(199, '(', '"a"', ')*')} "b"`)],
    [
      'a long chain of rules',
      ebnf(`root ::= r0\n${numbered(5_000, (at) => `r${at} ::= r${at + 1} "x"`).join('\n')}\nr5000 ::= "y"`),
    ],
    [
      'an empty rule doubled sixty times',
      ebnf(
        `root ::= r0\n${numbered(60, (at) => `r${at} ::= r${at + 1} r${at + 1}`).join('\n')}\nr60 ::= "y"?`,
      ),
    ],
    ['a rule that can be read in many ways', ebnf('root ::= s\ns ::= "a" s s | "a" s | "a" | ""')],
    [
      'free text after free text',
      format({ type: 'sequence', elements: numbered(500, () => ({ type: 'any_text', excludes: ['a'] })) }),
    ],
    [
      'stars of free text',
      format({ type: 'star', content: { type: 'star', content: { type: 'any_text' } } }),
    ],
  ])('compiles and samples %s', async (_what, grammar) => {
    await sample(grammar);
  });
});
