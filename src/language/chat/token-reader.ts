import { isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { getOrInsert } from '../../util/get-or-insert.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/** A piece of a reply. */
export type Piece =
  | { type: 'text'; text: string }
  /** A special token shown as text, or the space next to one. Not searched for stop strings. */
  | { type: 'special'; text: string }
  /** A special token that is no text, because it divides the reply. */
  | { type: 'mark'; token: number };

interface ReadingOptions {
  showSpecial: boolean;
  /** With `showSpecial`: a space between a special token and its neighbours. */
  spaces: boolean;
  /** The tokens that become marks. */
  marks: ReadonlySet<number>;
}

/** Reads tokens as text, cut at special tokens, and never inside a UTF-8 character. */
export class TokenReader {
  readonly #tokenizer: Tokenizer;
  readonly #options: ReadingOptions;
  readonly #special: ReadonlySet<number>;
  /** Created for the first token that is not whole characters. */
  #decoder: TextDecoder | null = null;
  /** Whether the decoder may hold the first bytes of a character. */
  #isPending = false;
  #before: 'nothing' | 'text' | 'special' = 'nothing';

  constructor(tokenizer: Tokenizer, options: ReadingOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
    this.#special = options.showSpecial ? new Set(tokenizer.special.values()) : new Set();
  }

  read(token: number): Piece[] {
    if (this.#options.marks.has(token)) return [...this.finish(), { type: 'mark', token }];
    if (!this.#special.has(token)) return this.#text(this.#decode(token));
    const pieces = this.finish();
    const space = this.#options.spaces && this.#before !== 'nothing' ? ' ' : '';
    this.#before = 'special';
    return [...pieces, { type: 'special', text: space + this.#tokenizer.text(token) }];
  }

  /** The rest: bytes that form no complete character. */
  finish(): Piece[] {
    const rest = this.#isPending ? this.#decoder?.decode() : '';
    this.#isPending = false;
    return this.#text(rest ?? '');
  }

  #decode(token: number): string {
    const text = wholeText(this.#tokenizer, token);
    if (text !== null && !this.#isPending) return text;
    this.#decoder ??= new TextDecoder('utf-8', { ignoreBOM: true });
    this.#isPending = text === null || text === '';
    return this.#decoder.decode(this.#tokenizer.bytes(token), { stream: true });
  }

  #text(text: string): Piece[] {
    if (text === '') return [];
    const apart = this.#options.spaces && this.#before === 'special';
    this.#before = 'text';
    return apart
      ? [
          { type: 'special', text: ' ' },
          { type: 'text', text },
        ]
      : [{ type: 'text', text }];
  }
}

/** By tokenizer and token: a text, or null for a token that is not valid UTF-8 on its own. */
const texts = new WeakMap<Tokenizer, (string | null)[]>();

/** The text of a token whose bytes are whole characters; null for any other. Cached, because tokens repeat. */
function wholeText(tokenizer: Tokenizer, token: number): string | null {
  const known = getOrInsert(texts, tokenizer, () => []);
  let text = known[token];
  if (text === undefined) {
    const bytes = tokenizer.bytes(token);
    text = isUtf8(bytes) ? Buffer.from(bytes).toString('utf8') : null;
    known[token] = text;
  }
  return text;
}
