import { readFileSync } from 'node:fs';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { LRUCache } from 'lru-cache';
import type { ChatFormat, Tokenizer } from './tokenizer.ts';

const FILE = new URL('./assets/tokenizer.json', import.meta.url);
/** Most cached words. Words that occur are few and short: this many take about 10 MB. */
const cachedWords = 1 << 16;
/** Most characters of a cached word. Longer words hardly recur, and this many of them would take gigabytes. */
const maxCachedWordLength = 64;

let loaded: Tokenizer | undefined;

/** The tokenizer of the embedded base models: byte-level BPE with 512 ids. Every digit is a token. */
export function loadTokenizer(): Tokenizer {
  loaded ??= new ByteLevelTokenizer(JSON.parse(readFileSync(FILE, 'utf8')) as TokenizerFile);
  return loaded;
}

class ByteLevelTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly special: ReadonlyMap<string, number>;
  readonly #model: HuggingFaceTokenizer;
  readonly #words = new LRUCache<string, readonly number[]>({ max: cachedWords });
  readonly #bytes: Uint8Array[];
  readonly #specialText = new Map<number, string>();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(file: TokenizerFile) {
    // Without its special tokens the library cannot find them in text, so only the chat template places them.
    this.#model = new HuggingFaceTokenizer({ ...file, added_tokens: [] }, {});
    this.special = new Map(file.added_tokens.map(({ content, id }) => [content, id]));
    for (const [text, id] of this.special) this.#specialText.set(id, text);
    this.#bytes = bytesOfTokens(file);
    this.vocabularySize = this.#bytes.length;
  }

  encode(text: string): number[] {
    const tokens: number[] = [];
    for (const [word] of text.matchAll(new RegExp(WORD_PATTERN, 'gu')))
      for (const token of this.#encodeWord(word)) tokens.push(token);
    return tokens;
  }

  decode(tokens: readonly number[]): string {
    const parts = tokens.map((token) => this.bytes(token));
    return this.#decoder.decode(Buffer.concat(parts));
  }

  bytes(token: number): Uint8Array {
    const bytes = this.#bytes[token];
    if (!bytes)
      throw new RangeError(
        `token ${token} is outside the vocabulary, whose ids are 0 to ${this.vocabularySize - 1}`,
      );
    return bytes;
  }

  text(token: number): string {
    return this.#specialText.get(token) ?? this.decode([token]);
  }

  #encodeWord(word: string): readonly number[] {
    const known = this.#words.get(word);
    if (known) return known;
    const tokens = this.#model.encode(word, { add_special_tokens: false }).ids;
    if (word.length <= maxCachedWordLength) this.#words.set(word, tokens);
    return tokens;
  }
}

function bytesOfTokens(file: TokenizerFile): Uint8Array[] {
  const byteOfSymbol = new Map(BYTE_SYMBOLS.map((symbol, byte) => [symbol, byte]));
  const bytes: Uint8Array[] = [];
  for (const [symbols, id] of Object.entries(file.model.vocab))
    bytes[id] = Uint8Array.from(symbols, (symbol) => byteOfSymbol.get(symbol)!);
  for (const { id } of file.added_tokens) bytes[id] = new Uint8Array(0);
  return bytes;
}

const TEMPLATE = new URL('./assets/chat-template.jinja', import.meta.url);

/** How the embedded base models write conversations: compactly, each section between two special tokens. */
export function chatFormat(tokenizer: Tokenizer): ChatFormat {
  return {
    template: readFileSync(TEMPLATE, 'utf8'),
    endToken: specialToken(tokenizer, '<|end|>'),
    callToken: specialToken(tokenizer, '<|call|>'),
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

/** Printable stand-ins for the bytes in a byte-level `tokenizer.json`, as in GPT-2. */
export const BYTE_SYMBOLS: readonly string[] = makeByteSymbols();

function makeByteSymbols(): string[] {
  const printable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

/** The part of a Hugging Face `tokenizer.json` that is used here. */
interface TokenizerFile {
  added_tokens: { id: number; content: string }[];
  model: { vocab: Record<string, number>; merges: [string, string][] };
}
