import { BYTE_SYMBOLS } from '../../../src/language/tokenizer/byte-level.ts';

/** Ids of the embedded vocabulary: the 256 bytes in order, then the merges in order, then the special tokens. */
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

export const MERGE_COUNT = VOCABULARY_SIZE - BYTE_SYMBOLS.length - SPECIAL_TOKENS.length;
