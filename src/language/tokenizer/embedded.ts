import { readFileSync } from 'node:fs';
import { ByteLevelTokenizer, type TokenizerFile } from './byte-level.ts';
import type { ChatFormat, Tokenizer } from './tokenizer.ts';

const FILE = new URL('./assets/tokenizer.json', import.meta.url);

let loaded: Tokenizer | undefined;

/** The tokenizer of the embedded base models: byte-level BPE with 512 ids. Every digit is a token. */
export function loadTokenizer(): Tokenizer {
  loaded ??= new ByteLevelTokenizer(JSON.parse(readFileSync(FILE, 'utf8')) as TokenizerFile, {
    split: (text) => text.match(new RegExp(WORD_PATTERN, 'gu')) ?? [],
    normalize: null,
  });
  return loaded;
}

const TEMPLATE = new URL('./assets/chat-template.jinja', import.meta.url);

/** How the embedded base models write conversations: compactly, each section between two special tokens. */
export function chatFormat(tokenizer: Tokenizer): ChatFormat & { callToken: number } {
  return {
    template: readFileSync(TEMPLATE, 'utf8'),
    toolTemplate: null,
    templateFrom: 'checkpoint',
    inspectsTexts: false,
    variables: { bos_token: '<|begin|>', eos_token: '<|end|>' },
    endToken: specialToken(tokenizer, '<|end|>'),
    otherEndTokens: [],
    callToken: specialToken(tokenizer, '<|call|>'),
    textCalls: null,
    textReasoning: null,
    beginToken: specialToken(tokenizer, '<|begin|>'),
    reasoning: {
      open: specialToken(tokenizer, '<|think|>'),
      close: specialToken(tokenizer, '<|answer|>'),
    },
  };
}

function specialToken(tokenizer: Tokenizer, text: string): number {
  const token = tokenizer.special.get(text);
  if (token === undefined) throw new RangeError(`the tokenizer has no special token ${text}`);
  return token;
}

/** Ids of the vocabulary: the 256 bytes in order, then the merges in order, then the special tokens. */
export const VOCABULARY_SIZE = 512;

const NAMED_SPECIAL_TOKENS = [
  '<|end|>',
  '<|system|>',
  '<|user|>',
  '<|assistant|>',
  '<|tool|>',
  '<|tools|>',
  '<|call|>',
  '<|pad|>',
  '<|think|>',
  '<|answer|>',
  '<|begin|>',
];
const RESERVED = [3, 4, 5, 6, 7].map((index) => `<|reserved_${index}|>`);

export const SPECIAL_TOKENS: readonly string[] = [...NAMED_SPECIAL_TOKENS, ...RESERVED];

export const MERGE_COUNT = VOCABULARY_SIZE - 256 - SPECIAL_TOKENS.length;

/**
 * Splits text into words, which merges do not cross: a word with the space before it, one digit, a run of punctuation
 * (with the space before it, so that spaced and compact JSON share tokens), white space.
 */
export const WORD_PATTERN = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
