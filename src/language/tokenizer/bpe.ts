import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { LRUCache } from 'lru-cache';
import type { Tokenizer } from './tokenizer.ts';

/**
 * Most cached words. Words that occur are few and short: this many take about 10 MB, the places for them alone 2 MB and
 * milliseconds, which the cache's `max` would take at once.
 */
const cachedWords = 1 << 16;
/** Most characters of a cached word. Longer words hardly recur, and this many of them would take gigabytes. */
const maxCachedWordLength = 64;

/** A token that is not part of the vocabulary of the merges, such as `<|im_end|>` or `<think>`. */
export interface AddedToken {
  id: number;
  content: string;
  /** Whether it is left out of decoded text. */
  special: boolean;
}

/** The part of a Hugging Face `tokenizer.json` that is used here. */
export interface TokenizerFile {
  added_tokens: AddedToken[];
  model: { vocab: Record<string, number>; merges: ([string, string] | string)[]; ignore_merges?: boolean };
}

export interface TextRules {
  /** Splits text into words, which merges do not cross. Together the words are the text. */
  split(text: string): Iterable<string>;
  /** What the tokenizer changes in a text before it encodes it; null if nothing. */
  normalize: ((text: string) => string) | null;
}

/** How a vocabulary writes texts. */
export interface Writing {
  missingBytes: ReadonlySet<number>;
  /** A word as the vocabulary writes it, without missing bytes. */
  symbols(word: string): string;
  /** The bytes of a token that is written so. */
  bytes(symbols: string): Uint8Array;
  /** The tokens of words that are not merged. */
  whole: ReadonlyMap<string, readonly number[]>;
  /** Whether symbols that are no token become tokens of their bytes. */
  fallsBack: boolean;
}

/** Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909). */
export class BpeTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly added: ReadonlyMap<string, number>;
  readonly special: ReadonlyMap<string, number>;
  readonly missingBytes: ReadonlySet<number>;
  readonly #rules: TextRules;
  readonly #writing: Writing;
  readonly #model: HuggingFaceTokenizer;
  readonly #words = new LRUCache<string, readonly number[]>({
    maxSize: cachedWords,
    sizeCalculation: () => 1,
  });
  readonly #bytes: Uint8Array[];
  readonly #addedText = new Map<number, string>();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(file: TokenizerFile, rules: TextRules, writing: Writing) {
    this.#rules = rules;
    this.#writing = writing;
    this.missingBytes = writing.missingBytes;
    const { added_tokens: added } = file;
    this.added = new Map(added.map(({ content, id }) => [content, id]));
    this.special = new Map(added.filter(({ special }) => special).map(({ content, id }) => [content, id]));
    for (const [text, id] of this.added) this.#addedText.set(id, text);
    // Without its added tokens the library cannot find them in text, so only a chat template places them.
    const vocab = Object.fromEntries(
      Object.entries(file.model.vocab).filter(([symbols]) => !this.added.has(symbols)),
    );
    this.#model = new HuggingFaceTokenizer(
      {
        model: { ...file.model, type: 'BPE', vocab, byte_fallback: writing.fallsBack },
        added_tokens: [],
        normalizer: null,
        pre_tokenizer: null,
        post_processor: null,
        decoder: null,
      },
      {},
    );
    this.#bytes = [];
    for (const [symbols, id] of Object.entries(vocab)) this.#bytes[id] = writing.bytes(symbols);
    for (const { id, content, special } of added) this.#bytes[id] = Buffer.from(special ? '' : content);
    this.vocabularySize = this.#bytes.length;
  }

  encode(text: string, most = Number.POSITIVE_INFINITY): number[] {
    return this.#encode(this.#rules.normalize?.(text) ?? text, most);
  }

  encodeExactly(text: string): number[] {
    return this.#encode(text, Number.POSITIVE_INFINITY);
  }

  #encode(text: string, most: number): number[] {
    const tokens: number[] = [];
    for (const word of this.#rules.split(text)) {
      for (const token of this.#encodeWord(word)) tokens.push(token);
      if (tokens.length > most) break;
    }
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
        `Token ${token} is outside the vocabulary, whose ids are 0 to ${this.vocabularySize - 1}.`,
      );
    return bytes;
  }

  text(token: number): string {
    return this.#addedText.get(token) ?? this.decode([token]);
  }

  #encodeWord(word: string): readonly number[] {
    const known = this.#writing.whole.get(word) ?? this.#words.get(word);
    if (known) return known;
    const tokens = this.#model.encode(this.#writing.symbols(word), { add_special_tokens: false }).ids;
    if (word.length <= maxCachedWordLength) this.#words.set(word, tokens);
    return tokens;
  }
}
