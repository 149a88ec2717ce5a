import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  admits,
  compiler,
  format,
  randomChooser,
  SEED,
  textOf,
  tokenizer,
  walk,
} from '../grammar/support.ts';

const ebnf = (grammar: string) => ({ type: 'ebnf', grammar }) as const;

const CHESS = `# a game in the notation of chess players
root ::= (
    "1. " move " " move "\\n"   # the first moves
    ([1-9] [0-9]? ". " move " " move "\\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?

nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
`;

const ARITHMETIC = `
root ::= sum
sum ::= product "+" sum | product "-" sum | product
product ::= factor
  | factor "*" product
factor ::= number | "(" sum ")"
number ::= [0-9]{1,3}
`;

const cases: [construct: string, grammar: string, admitted: string[], refused: string[]][] = [
  ['literals', 'root ::= "ab" "" "c"', ['abc'], ['ab', 'abcc', '']],
  [
    'escapes in literals',
    'root ::= "\\"\\\\\\n\\t\\x41\\u00e9\\U0001F600\\/[\\]"',
    ['"\\\n\tAé😀/[]'],
    ['"'],
  ],
  ['classes', 'root ::= [a-cx_-]', ['a', 'c', 'x', '_', '-'], ['d', 'ab', '']],
  ['negated classes', 'root ::= [^a-c\\n]', ['d', 'é', '😀', '\t'], ['a', '\n', '']],
  [
    'escapes in classes',
    'root ::= [\\]\\^\\-\\\\\\x30-\\x39\\u3041-\\u309f]',
    [']', '^', '-', '\\', '5', 'あ'],
    ['a'],
  ],
  ['a caret and a bracket inside', 'root ::= [a^[]', ['a', '^', '['], [']']],
  ['any character', 'root ::= ..', ['a😀', '\n\n'], ['a', 'abc']],
  ['alternatives', 'root ::= "a" | "b" "c" | ', ['a', 'bc', ''], ['ab', 'ac']],
  ['groups', 'root ::= ("a" | ("b" "c"))() "d"', ['ad', 'bcd'], ['d', 'abd']],
  ['?', 'root ::= "a"? "b"', ['b', 'ab'], ['aab']],
  ['*', 'root ::= ("ab")* "c"', ['c', 'ababc'], ['abac']],
  ['+', 'root ::= [ab]+', ['a', 'bba'], ['']],
  ['{m}', 'root ::= "a"{3}', ['aaa'], ['aa', 'aaaa']],
  ['{m,}', 'root ::= "a"{ 2 , }', ['aa', 'aaaaa'], ['a']],
  ['{m,n}', 'root ::= ("a" | "bb"){1,2}', ['a', 'bbbb', 'abb'], ['', 'aaa']],
  ['{0}', 'root ::= "a"{0} "b"', ['b'], ['ab']],
  ['repetitions of what may be empty', 'root ::= ("a"*){2,3} ("b"?)* "c"', ['c', 'aabbc'], ['ba']],
  ['names', 'root ::= a-b c_1 D.e\na-b ::= "1"\nc_1 ::= "2"\nD.e ::= "3"', ['123'], ['12']],
  ['rules in any order', 'x ::= "y"\nroot ::= x x', ['yy'], ['y']],
  ['lines in groups and after |', 'root ::= ( # why\n "a"\n "b" )\n | \n "c" # d', ['ab', 'c'], ['abc']],
  ['lines before |', 'root ::= "a"\n  | "b"\r\n  "c"', ['a', 'bc'], ['b']],
  ['nesting', 'root ::= "(" root ")" root | ""', ['', '()', '(()())()'], ['(', '())']],
  [
    'a published example',
    CHESS,
    ['1. e4 e5\n2. Nf3 O-O-O\n10. exd8=Q+ Kxd8\n'],
    ['1. e4 e5\n', '1. e9 e5\n2. a1 a1\n'],
  ],
  ['recursion on both sides', ARITHMETIC, ['1', '(12+3)*4-5', '((((1))))*2'], ['', '1+', '(1', '1234']],
];

describe('a GBNF grammar', () => {
  it.each(cases)('reads %s', async (_construct, grammar, admitted, refused) => {
    for (const text of admitted) expect(await admits(ebnf(grammar), text), JSON.stringify(text)).toBe(true);
    for (const text of refused) expect(await admits(ebnf(grammar), text), JSON.stringify(text)).toBe(false);
  });

  it.each<[message: string, grammar: string]>([
    ['line 1, column 1: it has no rule called root', 'start ::= "a"'],
    ['line 1, column 1: it has no rule called root', ''],
    ['line 1, column 14: there is no rule called b', 'root ::= "a" b'],
    ['line 2, column 7: there is no rule called c', 'root ::= "a"\nx ::= c'],
    ['line 2, column 1: the rule root is already defined on line 1', 'root ::= "a"\nroot ::= "b"'],
    ['line 1, column 10: a literal has no closing quote', 'root ::= "a\n"'],
    ['line 1, column 10: a character class has no "]"', 'root ::= [a'],
    ['line 1, column 10: an empty character class', 'root ::= []'],
    ['line 1, column 10: an empty character class', 'root ::= [^\\x00-\\U0010FFFF]'],
    ['line 1, column 11: a character range that runs backwards', 'root ::= [z-a]'],
    ['line 1, column 11: the escape \\d is unknown', 'root ::= [\\d]'],
    ['line 1, column 11: \\x needs 2 hexadecimal digits', 'root ::= "\\x4"'],
    ['line 1, column 11: \\ud83d is half of a surrogate pair', 'root ::= "\\ud83d"'],
    ['line 1, column 11: \\U00110000 is beyond the last character', 'root ::= "\\U00110000"'],
    ['line 1, column 10: "(" without ")"', 'root ::= ("a"'],
    ['line 1, column 13: ")" without "("', 'root ::= "a")'],
    ['line 1, column 10: "*" is not part of a rule', 'root ::= *'],
    ['line 1, column 10: "\'" is not part of a rule', "root ::= 'a'"],
    ['line 1, column 14: a repetition of a repetition', 'root ::= "a"+*'],
    ['line 1, column 13: a repetition {3,2} that ends before it begins', 'root ::= "a"{3,2}'],
    ['line 1, column 15: a repetition is written {m}, {m,} or {m,n}', 'root ::= "a"{1'],
    ['line 1, column 13: a repetition of more than 10000', 'root ::= "a"{1,100000}'],
    ['line 1, column 6: after the name root, ::= is expected, not ":"', 'root : "a"'],
    ['line 1, column 14: the rule x must begin on its own line', 'root ::= "a" x ::= "b"'],
    ['line 1, column 10: lookahead', 'root ::= (="a") "b"'],
    ['line 1, column 10: TagDispatch(...) is not supported', 'root ::= TagDispatch(("a", root))'],
    ['line 1, column 1: left recursion: root -> root', 'root ::= root "a" | "a"'],
    ['line 1, column 1: left recursion: root -> root', 'root ::= ("a"? root)* "b"'],
    [
      'line 2, column 1: left recursion: a -> b -> a',
      'root ::= "x" a\na ::= b "1" | "2"\nb ::= nothing a\nnothing ::= "" | nothing2\nnothing2 ::= [x]*',
    ],
    ['line 1, column 1: the rule root never ends', 'root ::= "a" root'],
    ['line 2, column 1: the rule a never ends', 'root ::= "x" | a\na ::= "(" b ")"\nb ::= "[" a "]"'],
  ])('is refused with %s', async (message, grammar) => {
    await expect(compiler.compile(textOf(ebnf(grammar)))).rejects.toMatchObject({
      code: 'ebnf_invalid',
      message: expect.stringContaining(message),
    });
  });

  it('may have its root last, after many rules of which each alternative needs two', async () => {
    const numbers = Array.from({ length: 40 }, (_, at) => at);
    const rules = [
      ...numbers.map((at) => `b${at} ::= "b"`),
      ...numbers.map((at) => `a${at} ::= "${at}"`),
      `root ::= ${numbers.map((at) => `a${at} b${at}`).join(' | ')}`,
    ];
    const grammar = rules.join('\n');
    expect(await admits(ebnf(grammar), '39b')).toBe(true);
    expect(await admits(ebnf(grammar), '40b')).toBe(false);
  });

  it('may nest to any depth, and its alternatives do not multiply', async () => {
    const depth = 200;
    const text = `${'('.repeat(depth)}1${')'.repeat(depth)}+2`;
    expect(await admits(ebnf(ARITHMETIC), text)).toBe(true);
    expect(await admits(ebnf(ARITHMETIC), text.replace('1)', '1'))).toBe(false);
    const twoEnds = 'root ::= "a" root "b" | "a" root "c" | ""';
    expect(await admits(ebnf(twoEnds), `${'a'.repeat(40)}${'bc'.repeat(20)}`)).toBe(true);
    expect(await admits(ebnf(twoEnds), `${'a'.repeat(40)}${'bc'.repeat(19)}`)).toBe(false);
  });
});

/** The same language as a GBNF grammar and as a regular expression. */
interface Twin {
  gbnf: string;
  regex: string;
}

const twins = fc.letrec<{ twin: Twin }>((tie) => ({
  twin: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'twin' },
    fc
      .constantFrom<Twin>(
        { gbnf: '"a"', regex: 'a' },
        { gbnf: '"ab"', regex: 'ab' },
        { gbnf: '""', regex: '(?:)' },
        { gbnf: '[ac]', regex: '[ac]' },
        { gbnf: '[^ab]', regex: '[^ab]' },
        { gbnf: '"é"', regex: 'é' },
        { gbnf: '.', regex: '[^]' },
      )
      .map(({ gbnf, regex }) => ({ gbnf: gbnf === 'é' ? '"é"' : gbnf, regex })),
    fc.tuple(tie('twin'), tie('twin')).map(([left, right]) => ({
      gbnf: `${left.gbnf} ${right.gbnf}`,
      regex: `${left.regex}${right.regex}`,
    })),
    fc.tuple(tie('twin'), tie('twin')).map(([left, right]) => ({
      gbnf: `(${left.gbnf} | ${right.gbnf})`,
      regex: `(?:${left.regex}|${right.regex})`,
    })),
    fc
      .tuple(tie('twin'), fc.constantFrom('?', '*', '+', '{2}', '{1,}', '{0,2}', '{1,3}'))
      .map(([body, times]) => ({ gbnf: `(${body.gbnf})${times}`, regex: `(?:${body.regex})${times}` })),
  ),
})).twin;

describe('a random GBNF grammar', () => {
  const grammars = fc.tuple(twins, twins).map(([part, whole]) => ({
    grammar: `root ::= ${whole.gbnf} part\npart ::= ${part.gbnf}`,
    oracle: new RegExp(`^(?:${whole.regex}${part.regex})$`, 'v'),
  }));

  it('samples only texts that the same regular expression matches', async () => {
    await fc.assert(
      fc.asyncProperty(grammars, fc.nat(), async ({ grammar, oracle }, seed) => {
        const compiled = await compiler.compile(textOf(ebnf(grammar)));
        for (let offset = 0; offset < 5; offset++) {
          const tokens = walk(compiled, randomChooser(seed + offset), 400);
          const text = tokenizer.decode(tokens);
          if (tokens.at(-1) === format.endToken)
            expect(oracle.test(text), `${grammar}: ${JSON.stringify(text)}`).toBe(true);
        }
      }),
      { seed: SEED, numRuns: 60 },
    );
  });

  it('allows exactly the texts that the same regular expression matches', async () => {
    const texts = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'é'), maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(grammars, fc.array(texts, { minLength: 5, maxLength: 10 }), async (twin, tried) => {
        for (const text of tried)
          expect(await admits(ebnf(twin.grammar), text), `${twin.grammar}: ${text}`).toBe(
            twin.oracle.test(text),
          );
      }),
      { seed: SEED, numRuns: 150 },
    );
  });
});
