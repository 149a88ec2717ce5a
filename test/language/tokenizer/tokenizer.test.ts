import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadTokenizer, WORD_PATTERN } from '../../../src/language/tokenizer/embedded.ts';
import { applyMerge, byteSymbols, learnMerges, type Merge } from './merges.ts';
import { SPECIAL_TOKENS, VOCABULARY_SIZE } from './vocabulary.ts';

const SEED = 20261121;
const tokenizer = loadTokenizer();
const asset = new URL('../../../src/language/tokenizer/assets/tokenizer.json', import.meta.url);
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
  it('has 512 ids: bytes, merges, special tokens', () => {
    expect(tokenizer.vocabularySize).toBe(VOCABULARY_SIZE);
    expect([...tokenizer.special.keys()]).toEqual(SPECIAL_TOKENS);
    for (let byte = 0; byte < 256; byte++) expect([...tokenizer.bytes(byte)]).toEqual([byte]);
    const texts = new Set(
      Array.from({ length: 496 }, (_, id) => Buffer.from(tokenizer.bytes(id)).toString('hex')),
    );
    expect(texts.size).toBe(496);
  });

  it('keeps the ids that weights were trained on', () => {
    const ids = ['<|end|>', '<|user|>', '<|call|>', '<|think|>', '<|answer|>', '<|begin|>', '<|reserved_3|>'];
    expect(ids.map((text) => tokenizer.special.get(text))).toEqual([496, 498, 502, 504, 505, 506, 507]);
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

  it('never forges a special token from text', () => {
    for (const special of SPECIAL_TOKENS)
      for (const token of tokenizer.encode(`a ${special}${special} b`))
        expect(tokenizer.bytes(token).length).toBeGreaterThan(0);
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
    expect(tokenizer.text(tokenizer.special.get('<|call|>')!)).toBe('<|call|>');
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
