import type { Piece } from './token-reader.ts';

/** Texts and tokens that end a reply. */
export interface Stops {
  strings: readonly string[];
  tokens: readonly number[];
}

/**
 * Withholds the end of a reply while it may be, or begin, a stop string, and cuts the reply at the stop string that
 * ended it. The engine finds stop strings; one it did not stop at, as before `min_tokens`, is text like any other.
 */
export class StopFilter {
  readonly #matchers: readonly PrefixMatcher[];
  #withheld: Piece[] = [];
  /** The text among what is withheld. */
  #text = '';
  /** Where in it the text of the newest token begins: a stop string that ends the reply ends after this. */
  #newest = 0;

  constructor(stops: readonly string[]) {
    this.#matchers = stops.map((stop) => new PrefixMatcher(stop));
  }

  /** Takes the pieces of a further token; returns those that are certain. */
  push(pieces: readonly Piece[]): Piece[] {
    if (this.#matchers.length === 0) return [...pieces];
    this.#newest = this.#text.length;
    this.#add(pieces);
    const newest = this.#text.slice(this.#newest);
    const uncertain = this.#matchers.map((matcher) => uncertainAfter(newest, matcher));
    return this.#release(this.#text.length - Math.max(...uncertain));
  }

  /** Takes the last pieces, which belong to the newest token, and the stop string that ended the reply. */
  end(pieces: readonly Piece[], stop: string | null, { include }: { include: boolean }): Piece[] {
    this.#add(pieces);
    const position = stop === null ? -1 : this.#find(stop);
    if (stop === null || position < 0) return this.#release(this.#text.length);
    return this.#release(include ? position + stop.length : position);
  }

  #find(stop: string): number {
    return this.#text.indexOf(stop, Math.max(0, this.#newest - stop.length + 1));
  }

  #add(pieces: readonly Piece[]): void {
    for (const piece of pieces) {
      this.#withheld.push(piece);
      if (piece.type === 'text') this.#text += piece.text;
    }
  }

  /** Gives out the first `length` characters of the text, and what stands before, among and right after them. */
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

/** Length of the longest end of all text that, now that `newest` has been read, may be, or begin, the stop string. */
function uncertainAfter(newest: string, matcher: PrefixMatcher): number {
  let found = -1;
  for (let at = 0; at < newest.length; at++)
    if (matcher.read(newest.charCodeAt(at)) && found < 0) found = matcher.length + newest.length - 1 - at;
  return found < 0 ? matcher.matched : found;
}

/**
 * Follows how much of a text's beginning stands at the end of what was read, character by character and in constant
 * time for each on average (Knuth, Morris and Pratt 1977).
 */
export class PrefixMatcher {
  readonly length: number;
  readonly #text: string;
  /** For each length of a beginning of the text, that of the longest shorter one which it ends in. */
  readonly #shorter: Int32Array;
  /** Length of the longest beginning that what was read ends in, the whole text included. */
  matched = 0;

  constructor(text: string) {
    this.#text = text;
    this.length = text.length;
    this.#shorter = new Int32Array(text.length + 1);
    for (let length = 2; length <= text.length; length++)
      this.#shorter[length] = this.#longer(this.#shorter[length - 1] ?? 0, text.charCodeAt(length - 1));
  }

  /** Reads a further character; returns whether the whole text ends with it. */
  read(code: number): boolean {
    this.matched = this.#longer(
      this.matched === this.length ? this.#shorterThan(this.length) : this.matched,
      code,
    );
    return this.matched === this.length;
  }

  #longer(from: number, code: number): number {
    let length = from;
    while (length > 0 && this.#text.charCodeAt(length) !== code) length = this.#shorterThan(length);
    return this.#text.charCodeAt(length) === code ? length + 1 : 0;
  }

  #shorterThan(length: number): number {
    return this.#shorter[length] ?? 0;
  }
}
