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
