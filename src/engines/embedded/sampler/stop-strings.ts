/** Looks for texts in a reply, byte for byte, however they are cut into tokens. */
export class StopStrings {
  readonly #texts: readonly string[];
  /** The texts, one character a byte. */
  readonly #bytes: readonly string[];
  /** The reply's last bytes, as many as an unfinished text can have. */
  #tail = '';

  constructor(texts: readonly string[]) {
    this.#texts = texts;
    this.#bytes = texts.map((text) => Buffer.from(text).toString('latin1'));
  }

  /** Takes the bytes of the reply's next token; returns the first of the texts that they complete, or null. */
  find(token: Uint8Array): string | null {
    if (this.#texts.length === 0) return null;
    const bytes = this.#tail + Buffer.from(token).toString('latin1');
    const longest = Math.max(...this.#bytes.map((text) => text.length));
    const from = this.#tail.length;
    this.#tail = bytes.slice(Math.max(0, bytes.length - longest + 1));
    const at = this.#bytes.findIndex((text) => bytes.indexOf(text, Math.max(0, from - text.length + 1)) >= 0);
    return at < 0 ? null : (this.#texts[at] as string);
  }

  fork(): StopStrings {
    const copy = new StopStrings(this.#texts);
    copy.#tail = this.#tail;
    return copy;
  }
}
