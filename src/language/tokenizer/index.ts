import { readFileSync } from 'node:fs';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { LRUCache } from 'lru-cache';
import { BYTE_SYMBOLS, type TokenizerFile, WORD_PATTERN } from './format.ts';
import type { Tokenizer } from './tokenizer.ts';

const FILE = new URL('./assets/tokenizer.json', import.meta.url);
/** Words seen are few and short; this many of them take about 10 MB. */
const CACHED_WORDS = 1 << 16;
/** Of longer ones as many would take gigabytes, and nobody writes them twice. */
const LONGEST_CACHED_WORD = 64;

let loaded: Tokenizer | undefined;

/** The tokenizer of the embedded base models: byte-level BPE over 512 ids, every digit a token of its own. */
export function loadTokenizer(): Tokenizer {
  loaded ??= new ByteLevelTokenizer(JSON.parse(readFileSync(FILE, 'utf8')) as TokenizerFile);
  return loaded;
}

export { chatFormat } from './chat-format.ts';

class ByteLevelTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly special: ReadonlyMap<string, number>;
  readonly #model: HuggingFaceTokenizer;
  readonly #words = new LRUCache<string, readonly number[]>({ max: CACHED_WORDS });
  readonly #bytes: Uint8Array[];
  readonly #specialText = new Map<number, string>();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(file: TokenizerFile) {
    // Without its special tokens the library cannot find them in text: only the chat template places them.
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
    if (word.length <= LONGEST_CACHED_WORD) this.#words.set(word, tokens);
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
