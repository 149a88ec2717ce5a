/** Finds the tokens that would complete one of some texts, byte for byte, however a text is cut into tokens. */
export class BannedTexts {
  /** The texts, one character a byte. */
  readonly #texts: readonly string[];
  readonly #longest: number;
  readonly #bytes: readonly string[];
  /** 1 for the tokens that hold a whole text. */
  readonly #whole: Uint8Array;

  /** `bytes` has the bytes of each token, one character each. */
  constructor(texts: readonly string[], bytes: readonly string[]) {
    this.#texts = texts.map((text) => Buffer.from(text).toString('latin1')).filter((text) => text !== '');
    this.#longest = Math.max(0, ...this.#texts.map((text) => text.length));
    this.#bytes = bytes;
    this.#whole = Uint8Array.from(bytes, (token) =>
      this.#texts.some((text) => token.includes(text)) ? 1 : 0,
    );
  }

  /** What says of a token whether it may follow the tokens from `start` to `end`. */
  after(tokens: readonly number[], start: number, end: number): (token: number) => boolean {
    const tail = this.#tail(tokens, start, end);
    const rests: string[] = [];
    for (const text of this.#texts)
      for (let begun = Math.min(tail.length, text.length - 1); begun > 0; begun--)
        if (tail.endsWith(text.slice(0, begun))) rests.push(text.slice(begun));
    return (token) =>
      this.#whole[token] === 0 && !rests.some((rest) => (this.#bytes[token] as string).startsWith(rest));
  }

  /** The last bytes, as many as an unfinished text can have. */
  #tail(tokens: readonly number[], start: number, end: number): string {
    let tail = '';
    for (let at = end - 1; at >= start && tail.length < this.#longest - 1; at--)
      tail = (this.#bytes[tokens[at] as number] as string) + tail;
    return tail;
  }
}
