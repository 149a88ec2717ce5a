import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import { grammarSource } from '../../../src/language/compiler/grammar-source.ts';
import { Automaton } from '../../../src/language/grammar/automaton.ts';
import type { AutomatonState } from '../../../src/language/grammar/automaton-state.ts';
import { buildByteGraph } from '../../../src/language/grammar/byte-graph.ts';
import type { Constraint, Grammar } from '../../../src/language/grammar/constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { LegalTokenSearch } from '../../../src/language/grammar/legal-search.ts';
import { RunTokensCache } from '../../../src/language/grammar/run-tokens.ts';
import { TokenTrie } from '../../../src/language/grammar/token-trie.ts';
import { writtenCall } from '../../support/written-call.ts';
import { makeLargeVocabulary } from './large-vocabulary.ts';
import { randomChooser, SEED, textOf } from './support.ts';

type TextGrammar = Exclude<Grammar, { type: 'text' }>;

/** A vocabulary, and the legal tokens by their definition: token by token, each byte by byte. */
class Checked {
  readonly tokenizer;
  readonly endToken;
  readonly vocabulary;
  readonly #idOf = new Map<string, number>();

  constructor(size: number) {
    const { tokenizer, endToken } = makeLargeVocabulary(size);
    this.tokenizer = tokenizer;
    this.endToken = endToken;
    const trie = new TokenTrie(tokenizer);
    this.vocabulary = { trie, runs: new RunTokensCache(trie) };
    for (let token = 0; token < size; token++) {
      const text = Buffer.from(tokenizer.bytes(token)).toString('latin1');
      if (text !== '' && !this.#idOf.has(text)) this.#idOf.set(text, token);
    }
  }

  plain(state: AutomatonState): number[] {
    const legal: number[] = [];
    for (const [text, token] of this.#idOf) {
      let reached: AutomatonState | null = state;
      for (let at = 0; at < text.length && reached; at++) reached = reached.step(text.charCodeAt(at));
      if (reached && !this.#isBegunByForced(text, reached)) legal.push(token);
    }
    return legal.sort((left, right) => left - right);
  }

  #isBegunByForced(text: string, reached: AutomatonState): boolean {
    let longer = text;
    let state: AutomatonState | null = reached;
    while (state && state.onlyByte !== null && longer.length < 256) {
      longer += String.fromCharCode(state.onlyByte);
      state = state.step(state.onlyByte);
      if (state && this.#idOf.has(longer)) return true;
    }
    return false;
  }

  /** Compares the search with the definition at states along a sampled text. */
  expectExact(grammar: TextGrammar, seed: number, steps: number): void {
    const automaton = new Automaton(buildByteGraph(grammarSource(grammar)));
    const choose = randomChooser(seed);
    let state: AutomatonState = automaton.start;
    for (let step = 0; step < steps; step++) {
      automaton.visits.startTask();
      const found = new LegalTokenSearch(this.vocabulary, state).advance(() => choose(5) === 0);
      const set = found ?? this.#resume(state);
      automaton.visits.startTask();
      const legal = this.plain(state);
      expect([...set.ids]).toEqual(legal);
      if (legal.length === 0) return;
      for (const byte of this.tokenizer.bytes(legal[choose(legal.length)]!)) state = state.step(byte)!;
    }
  }

  /** The search, paused again and again. */
  #resume(state: AutomatonState) {
    const search = new LegalTokenSearch(this.vocabulary, state);
    for (let count = 0; ; count++) {
      const set = search.advance(() => count++ % 3 === 0);
      if (set) return set;
    }
  }
}

const medium = new Checked(12_000);

const classes = [
  '[a-z]',
  '[^"\\\\]',
  '\\w',
  '.',
  '[0-9]',
  '[а-я]',
  '[ -~]',
  '[a-z0-9 ]',
  '[^e]',
  '\\s',
  '[^\\n日]',
];
const pattern = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(...classes),
    fc.constantFrom('the', 'a', '"', 'st', '日本', ' ', '\\n'),
    fc
      .tuple(fc.constantFrom(...classes), fc.constantFrom('*', '+', '{3}', '{0,4}', '{2,40}', '{0,200}', '?'))
      .map(([of, times]) => of + times),
    fc.tuple(tie('node'), tie('node')).map(([left, right]) => left + right),
    fc.tuple(tie('node'), tie('node')).map(([left, right]) => `(?:${left}|${right})`),
    fc.tuple(tie('node'), fc.constantFrom('*', '{1,3}')).map(([of, times]) => `(?:${of})${times}`),
  ),
})).node;

const schema = fc.letrec<{ node: object }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom({ type: 'string' }, { type: 'number' }, { type: 'boolean' }, { type: 'integer' }, {}),
    fc.record({
      type: fc.constant('string'),
      minLength: fc.nat(3),
      maxLength: fc.integer({ min: 3, max: 150 }),
    }),
    fc.record({
      type: fc.constant('string'),
      pattern: fc.constantFrom('^[a-z]{2,9}$', '^\\w+@\\w+$', 'the'),
    }),
    fc.record({
      enum: fc.uniqueArray(fc.constantFrom('the', 'then', 'th', 1, null, '日本', ' x'), { minLength: 1 }),
    }),
    fc.record({ type: fc.constant('array'), items: tie('node'), maxItems: fc.integer({ min: 1, max: 5 }) }),
    fc.tuple(tie('node'), tie('node')).map(([a, b]) => ({
      type: 'object',
      properties: { a, 'the ending': b },
      required: ['a'],
      additionalProperties: false,
    })),
  ),
})).node;

const textOrCalls = (tag: string, before: string): TextGrammar => ({
  type: 'text_or_calls',
  content: { type: 'text' },
  calls: {
    type: 'named_json',
    alternatives: [{ name: 'ing', schema: { type: 'object', properties: { the: { type: 'string' } } } }],
    written: {
      ...{ beforeName: tag + before, beforeArguments: '", "arguments": ', after: '}', between: null },
      mayHaveSpaces: false,
    },
  },
  tag,
  reasoning: { open: 'th', close: 'st' },
});

describe('the search for legal tokens', () => {
  it('finds those of the definition, for any regular expression', () => {
    fc.assert(
      fc.property(pattern, fc.nat(), (source, seed) =>
        medium.expectExact({ type: 'regex', pattern: source }, seed, 4),
      ),
      { seed: SEED, numRuns: 60 },
    );
  });

  it('finds those of the definition, for any JSON schema', () => {
    fc.assert(
      fc.property(schema, fc.constantFrom(undefined, '\\s*', ' ?'), fc.nat(), (of, whitespace, seed) =>
        medium.expectExact(
          { type: 'json_schema', schema: { ...of }, ...(whitespace === undefined ? {} : { whitespace }) },
          seed,
          8,
        ),
      ),
      { seed: SEED, numRuns: 60 },
    );
  });

  it.each<[string, TextGrammar]>([
    ['strings that almost end', { type: 'json_schema', schema: { type: 'string', maxLength: 9 } }],
    ['free text after free text', { type: 'regex', pattern: '[^"]{0,40}"[^"]{0,40}' }],
    [
      'text without a word',
      { type: 'structural_tag', tag: { format: { type: 'any_text', excludes: ['the end', 'ing'] } } },
    ],
    ['a text whose last characters are others', { type: 'regex', pattern: '[a-z ]{0,12}[a-e]{5}' }],
    ['text or calls with a tag', textOrCalls('the"', '{"name": "')],
    ['text or bare calls', textOrCalls('', '{"name": "')],
    ['a text whose end is forced', { type: 'regex', pattern: '[a-z ]{0,12}qu(?:is|it)?the' }],
  ])('finds those of the definition in %s', (_what, grammar) => {
    for (let seed = 0; seed < 6; seed++) medium.expectExact(grammar, seed, 12);
  });

  it('finds those of the definition among 150,000 tokens', () => {
    const large = new Checked(150_000);
    const properties = { note: { type: 'string', maxLength: 60 }, 'the kind': { enum: ['the', 'other'] } };
    const required = Object.keys(properties);
    large.expectExact(
      { type: 'json_schema', schema: { type: 'object', properties, required, additionalProperties: false } },
      1,
      14,
    );
  }, 120_000);
});

describe('a constraint over a large vocabulary', () => {
  const { tokenizer, endToken } = medium;
  const compiler = new GrammarCompiler(tokenizer, { endToken });
  const schema = {
    type: 'object',
    properties: { order: { type: 'string', pattern: '^[0-9]{4}$' }, note: { type: 'string', maxLength: 90 } },
    required: ['order', 'note'],
    additionalProperties: false,
  };
  const calls: Constraint = {
    reasoning: { before: '<think>\n', close: '</think>', after: '\n\n', limit: 200 },
    grammar: {
      type: 'text_or_calls',
      content: { type: 'text' },
      calls: {
        type: 'named_json',
        alternatives: [
          { name: 'refund', schema },
          { name: 'track', schema },
        ],
        written: { ...writtenCall, between: '' },
      },
      tag: writtenCall.beforeName,
      reasoning: null,
    },
  };

  it('writes a reply with reasoning and tool calls as sampling could', async () => {
    const compiled = await compiler.compile(calls);
    const note = 'the "other" one \\ 日本語 é';
    const [close, callToken] = ['</think>', '<tool_call>'].map((tag) => tokenizer.added.get(tag)!) as [
      number,
      number,
    ];
    const call = `refund${JSON.stringify({ order: '0042', note })}`;
    const parts = ['<think>\nthinking of the ending', close, '\n\nYes: ', callToken, `${call}</tool_call>`];
    const tokens = encodeReply({ parts, constraint: calls }, compiled, tokenizer, { endToken });
    const state = compiled.start();
    const replayed: number[] = [];
    while (!state.ended) {
      const forced = state.takeForced();
      replayed.push(...forced);
      if (state.ended) break;
      const token = tokens[replayed.length]!;
      expect(state.legal().has(token)).toBe(true);
      state.accept(token);
      replayed.push(token);
    }
    expect(replayed).toEqual(tokens);
    const text = tokens.slice(tokens.indexOf(callToken) + 1, -1);
    expect(tokenizer.decode(text)).toBe(`${call}</tool_call>`);
  });

  it('keeps one set for all positions in a long string that no token can reach the end of', async () => {
    const schema = { type: 'string', maxLength: 400 };
    const state = (await compiler.compile(textOf({ type: 'json_schema', schema }))).start();
    const [letter] = tokenizer.encode('a') as [number];
    state.takeForced();
    const first = state.legal();
    expect(first.bytes).toBeLessThanOrEqual(Math.ceil(tokenizer.vocabularySize / 32) * 4);
    for (let position = 1; position < 250; position++) {
      state.accept(letter);
      expect(state.legal()).toBe(first);
    }
    for (let position = 250; position < 390; position++) state.accept(letter);
    expect(state.legal().size).toBeLessThan(first.size);
  });

  it('never admits special tokens, ids without bytes, or the second of two tokens with equal bytes', async () => {
    const compiled = await compiler.compile(textOf({ type: 'regex', pattern: '[\\s\\S]*' }));
    const { ids } = compiled.start().legal();
    const texts = [...ids]
      .filter((token) => token !== endToken)
      .map((token) => Buffer.from(tokenizer.bytes(token)).toString('latin1'));
    expect(texts.filter((text) => text === '')).toEqual([]);
    expect(new Set(texts).size).toBe(texts.length);
    const the = [...ids].filter((token) => tokenizer.text(token) === 'the');
    expect(the).toEqual(tokenizer.encode('the'));
  });
});
