import { BYTE_SYMBOLS } from '../../../src/language/tokenizer/byte-level.ts';

/** Ids of the embedded vocabulary: the 256 bytes in order, then the merges in order, then the added tokens. */
export const VOCABULARY_SIZE = 512;

/**
 * Splits text into words, which merges do not cross: a word with the space before it, one digit, a run of punctuation
 * (with the space before it, so that spaced and compact JSON share tokens), white space.
 */
export const WORD_PATTERN = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** The token that a sequence begins with. */
export const BEGIN_TOKEN = '<|begin|>';

/** In the order of their ids. */
export const ADDED_TOKENS: readonly string[] = [
  '<|end|>',
  '<|system|>',
  '<|user|>',
  '<|assistant|>',
  '<|tool|>',
  '<|tools|>',
  '<tool_call>',
  '<|pad|>',
  '<think>',
  '</think>',
  BEGIN_TOKEN,
  '</tool_call>',
  ...[4, 5, 6, 7].map((index) => `<|reserved_${index}|>`),
];

/** Whether an added token is no text of a reply. Tags are. */
export const isSpecial = (added: string): boolean => added.startsWith('<|');

export const MERGE_COUNT = VOCABULARY_SIZE - BYTE_SYMBOLS.length - ADDED_TOKENS.length;
