import { largestOf } from '../../../util/extremes.ts';
/** Finds the tokens that would complete a banned text, byte for byte, however the text is cut into tokens. */
export class BannedTexts {
  /** The texts, with one character for each byte. */
  readonly #texts: readonly string[];
  readonly #maxLength: number;
  readonly #maxTokenBytes: number;
  readonly #bytes: readonly string[];
  /** 1 for tokens that contain a whole text. */
  readonly #whole: Uint8Array;

  /** `bytes`: the bytes of each token, with one character for each byte. */
  constructor(texts: readonly string[], bytes: readonly string[]) {
    this.#texts = texts.map((text) => Buffer.from(text).toString('latin1')).filter((text) => text !== '');
    this.#maxLength = largestOf(
      this.#texts.map((text) => text.length),
      0,
    );
    this.#bytes = bytes;
    this.#maxTokenBytes = largestOf(
      bytes.map((token) => token.length),
      0,
    );
    this.#whole = Uint8Array.from(bytes, (token) =>
      this.#texts.some((text) => token.includes(text)) ? 1 : 0,
    );
  }

  /** Returns a function that tells whether a token may follow the tokens from `start` to `end`. */
  allowedAfter(tokens: readonly number[], start: number, end: number): (token: number) => boolean {
    const tail = this.#tail(tokens, start, end);
    const rests = new Set<string>();
    for (const text of this.#texts) {
      // A text that no single token can complete is not banned yet.
      const minLength = Math.max(1, text.length - this.#maxTokenBytes);
      for (let length = Math.min(tail.length, text.length - 1); length >= minLength; length--)
        if (tail.endsWith(text.slice(0, length))) rests.add(text.slice(length));
    }
    return (token) => this.#whole[token] === 0 && !startsWithOne(this.#bytes[token] as string, rests);
  }

  /** The last bytes, as many as an incomplete text can have. */
  #tail(tokens: readonly number[], start: number, end: number): string {
    let tail = '';
    for (let at = end - 1; at >= start && tail.length < this.#maxLength - 1; at--)
      tail = (this.#bytes[tokens[at] as number] as string) + tail;
    return tail;
  }
}

function startsWithOne(bytes: string, beginnings: ReadonlySet<string>): boolean {
  if (beginnings.size === 0) return false;
  for (let length = 1; length <= bytes.length; length++)
    if (beginnings.has(bytes.slice(0, length))) return true;
  return false;
}
