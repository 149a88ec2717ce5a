import { largestOf } from '../../util/extremes.ts';
import type { Piece } from './token-reader.ts';

/** Texts and tokens that end a reply. */
export interface Stops {
  strings: readonly string[];
  tokens: readonly number[];
}

/**
 * Tracks the longest prefix of a text that the characters read so far end with. Takes constant time per character on
 * average (Knuth, Morris and Pratt 1977).
 */
export class PrefixMatcher {
  readonly text: string;
  /** For each prefix length, the longest shorter prefix that the prefix ends with. */
  readonly #shorter: Int32Array;
  /** Length of the prefix that the characters read so far end with, up to the whole text. */
  matched = 0;

  constructor(text: string) {
    this.text = text;
    this.#shorter = new Int32Array(text.length + 1);
    for (let length = 2; length <= text.length; length++)
      this.#shorter[length] = this.#longer(this.#shorter[length - 1] ?? 0, text.charCodeAt(length - 1));
  }

  /** Reads one character; returns whether the whole text ends with it. */
  read(code: number): boolean {
    const { length } = this.text;
    this.matched = this.#longer(this.matched === length ? (this.#shorter[length] ?? 0) : this.matched, code);
    return this.matched === length;
  }

  #longer(from: number, code: number): number {
    let length = from;
    while (length > 0 && this.text.charCodeAt(length) !== code) length = this.#shorter[length] ?? 0;
    return this.text.charCodeAt(length) === code ? length + 1 : 0;
  }
}

/** Finds stop strings in the bytes of a reply, however they are split into tokens. */
export class StopStrings {
  readonly #texts: readonly string[];
  /** One per text, over its UTF-8 bytes as one character each. */
  readonly #matchers: readonly PrefixMatcher[];

  constructor(texts: readonly string[]) {
    this.#texts = texts;
    this.#matchers = texts.map((text) => new PrefixMatcher(Buffer.from(text).toString('latin1')));
  }

  /** Reads the bytes of the next token. Returns the first text that ends in them, or null. */
  find(token: Uint8Array): string | null {
    let found: string | null = null;
    for (const [index, matcher] of this.#matchers.entries()) {
      let ends = false;
      for (const byte of token) ends = matcher.read(byte) || ends;
      if (ends) found ??= this.#texts[index] ?? null;
    }
    return found;
  }

  /** A copy that continues independently. */
  fork(): StopStrings {
    const copy = new StopStrings(this.#texts);
    for (const [index, { matched }] of this.#matchers.entries()) {
      const matcher = copy.#matchers[index];
      if (matcher) matcher.matched = matched;
    }
    return copy;
  }
}

/**
 * Withholds the end of a reply's text while it may be a stop string or a prefix of one, and cuts the reply at the stop
 * string that ended it. The engine decides where a reply ends: a stop string that did not end it, such as one before
 * `min_tokens`, is ordinary text.
 */
export class StopFilter {
  readonly #matchers: readonly PrefixMatcher[];
  #withheld: Piece[] = [];
  #text = '';
  /** Start of the newest token's text within the withheld text. The stop string that ends a reply ends after it. */
  #newest = 0;

  constructor(stops: readonly string[]) {
    this.#matchers = stops.map((stop) => new PrefixMatcher(stop));
  }

  /** Takes the pieces of the next token. Returns those that can no longer be part of a stop string. */
  push(pieces: readonly Piece[]): Piece[] {
    this.#newest = this.#text.length;
    this.#add(pieces);
    const newest = this.#text.slice(this.#newest);
    const uncertain = this.#matchers.map((matcher) => uncertainAfter(newest, matcher));
    return this.#release(this.#text.length - largestOf(uncertain));
  }

  /** Takes the last pieces, which belong to the newest token, and the stop string that ended the reply. */
  end(pieces: readonly Piece[], stop: string | null, { include }: { include: boolean }): Piece[] {
    this.#add(pieces);
    const position =
      stop === null ? -1 : this.#text.indexOf(stop, Math.max(0, this.#newest - stop.length + 1));
    if (stop === null || position < 0) return this.#release(this.#text.length);
    return this.#release(include ? position + stop.length : position);
  }

  #add(pieces: readonly Piece[]): void {
    for (const piece of pieces) {
      this.#withheld.push(piece);
      if (piece.type === 'text') this.#text += piece.text;
    }
  }

  /** Releases the first `length` characters, with the other pieces before, among and right after them. */
  #release(length: number): Piece[] {
    const released: Piece[] = [];
    let left = length;
    let piece = this.#withheld.shift();
    while (piece && (piece.type !== 'text' || piece.text.length <= left)) {
      released.push(piece);
      if (piece.type === 'text') left -= piece.text.length;
      piece = this.#withheld.shift();
    }
    if (piece?.type === 'text') {
      if (left > 0) released.push({ type: 'text', text: piece.text.slice(0, left) });
      this.#withheld.unshift({ type: 'text', text: piece.text.slice(left) });
    }
    this.#text = this.#text.slice(length);
    this.#newest = Math.max(0, this.#newest - length);
    return released;
  }
}

/**
 * Reads `newest`. Returns the length of the longest suffix of the text that may be the stop string or a prefix of it.
 */
function uncertainAfter(newest: string, matcher: PrefixMatcher): number {
  let found = -1;
  for (let at = 0; at < newest.length; at++)
    if (matcher.read(newest.charCodeAt(at)) && found < 0)
      found = matcher.text.length + newest.length - 1 - at;
  return found < 0 ? matcher.matched : found;
}
