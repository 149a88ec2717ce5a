import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { applyMerge, byteSymbols, learnMerges, type Merge } from './merges.ts';
import { ADDED_TOKENS, isSpecial, VOCABULARY_SIZE, WORD_PATTERN } from './vocabulary.ts';

const SEED = 20261121;
const { tokenizer } = builtInLanguage();
const asset = new URL('../../../src/engines/embedded/built-in/tokenizer.json', import.meta.url);
const file = JSON.parse(readFileSync(asset, 'utf8')) as {
  model: { vocab: Record<string, number>; merges: Merge[] };
};
const unicode = fc.string({ unit: 'binary', maxLength: 200 });

/** The merges applied naively: each in order, over each word. */
function encodeByMerges(text: string): number[] {
  return [...text.matchAll(new RegExp(WORD_PATTERN, 'gu'))].flatMap(([word]) => {
    let symbols = byteSymbols(word);
    for (const merge of file.model.merges) symbols = applyMerge(symbols, merge);
    return symbols.map((symbol) => file.model.vocab[symbol]!);
  });
}

describe('the embedded tokenizer', () => {
  it('has 512 ids: bytes, merges, added tokens', () => {
    expect(tokenizer.vocabularySize).toBe(VOCABULARY_SIZE);
    expect([...tokenizer.added.keys()]).toEqual(ADDED_TOKENS);
    expect([...tokenizer.special.keys()]).toEqual(ADDED_TOKENS.filter(isSpecial));
    for (let byte = 0; byte < 256; byte++) expect([...tokenizer.bytes(byte)]).toEqual([byte]);
    const texts = new Set(
      Array.from({ length: 496 }, (_, id) => Buffer.from(tokenizer.bytes(id)).toString('hex')),
    );
    expect(texts.size).toBe(496);
  });

  it('keeps the ids that weights were trained on', () => {
    const ids = ['<|end|>', '<|user|>', '<tool_call>', '<think>', '</think>', '<|begin|>', '</tool_call>'];
    expect(ids.map((text) => tokenizer.added.get(text))).toEqual([496, 498, 502, 504, 505, 506, 507]);
    expect(tokenizer.encode('Hi there: {"a":1}')).toEqual([72, 105, 262, 264, 58, 32, 344, 97, 266, 49, 125]);
  });

  it('decodes every encoded text to itself', () => {
    fc.assert(
      fc.property(unicode, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.toWellFormed());
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('decodes any ids like a UTF-8 decoder, and special tokens to nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(VOCABULARY_SIZE - 1)), (ids) => {
        const bytes = Buffer.concat(ids.map((id) => tokenizer.bytes(id)));
        expect(tokenizer.decode(ids)).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
      }),
      { seed: SEED, numRuns: 500 },
    );
    expect(tokenizer.decode([0xff])).toBe('\ufffd');
    expect(tokenizer.decode([tokenizer.special.get('<|end|>')!])).toBe('');
  });

  it('encodes as its merges say', () => {
    fc.assert(
      fc.property(fc.oneof(unicode, fc.lorem({ mode: 'sentences' }), fc.json()), (text) => {
        expect(tokenizer.encode(text)).toEqual(encodeByMerges(text.toWellFormed()));
      }),
      { seed: SEED, numRuns: 100 },
    );
  });

  it('never forges a special token or a tag from text', () => {
    const ids = new Set(tokenizer.added.values());
    for (const text of ADDED_TOKENS)
      for (const token of tokenizer.encode(`a ${text}${text} b`)) expect(ids.has(token)).toBe(false);
  });

  it('has tags that are text in a reply', () => {
    for (const tag of ADDED_TOKENS.filter((text) => !isSpecial(text))) {
      const token = tokenizer.added.get(tag)!;
      expect(Buffer.from(tokenizer.bytes(token)).toString()).toBe(tag);
      expect(tokenizer.decode([token])).toBe(tag);
    }
  });

  it('makes every digit its own token', () => {
    expect(tokenizer.encode('0123456789')).toEqual([...Buffer.from('0123456789')]);
    for (let token = 256; token < VOCABULARY_SIZE; token++)
      expect(Buffer.from(tokenizer.bytes(token)).toString()).not.toMatch(/\d/);
  });

  it('has single tokens for common words and the punctuation of compact JSON', () => {
    for (const piece of ['{"', '":"', '","', '":', ' the', ' you', 'Please', ' your'])
      expect(tokenizer.encode(piece)).toHaveLength(1);
  });

  it('shows special tokens by name and refuses ids it does not have', () => {
    expect(tokenizer.text(tokenizer.special.get('<|user|>')!)).toBe('<|user|>');
    expect(() => tokenizer.bytes(VOCABULARY_SIZE)).toThrow(RangeError);
  });
});

describe('learning merges', () => {
  it('joins the heaviest pair first and the alphabetically first of equals', () => {
    expect(
      learnMerges(
        new Map([
          ['low', 5],
          ['lower', 2],
          ['new', 6],
        ]),
        3,
      ),
    ).toEqual([
      ['l', 'o'],
      ['lo', 'w'],
      ['e', 'w'],
    ]);
  });

  it('stops when nothing is left to join', () => {
    expect(learnMerges(new Map([['ab', 1]]), 10)).toEqual([['a', 'b']]);
  });
});
