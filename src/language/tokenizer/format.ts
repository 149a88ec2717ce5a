/** Ids of the vocabulary: the 256 bytes in their order, then the merges in theirs, then the special tokens. */
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
 * Cuts text into the words that merges stay within: a word with the space before it, one digit, a run of
 * punctuation (with the space before it, so that spaced and compact JSON both find their pieces), white space.
 */
export const WORD_PATTERN = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** The printable stand-ins of the bytes in a byte-level `tokenizer.json`, as GPT-2 chose them. */
export const BYTE_SYMBOLS: readonly string[] = makeByteSymbols();

function makeByteSymbols(): string[] {
  const printable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

/** `tokenizer.json` as Hugging Face libraries read it; the part that is ours. */
export interface TokenizerFile {
  added_tokens: { id: number; content: string }[];
  model: { vocab: Record<string, number>; merges: [string, string][] };
}
