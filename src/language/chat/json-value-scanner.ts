/** Finds where a JSON value ends. What is no JSON ends where its brackets are closed. */
export class JsonValueScanner {
  #depth = 0;
  #inText = false;
  #isEscaped = false;
  #begun = false;
  ended = false;

  /** Reads on; returns how many of the characters belong to the value. */
  read(text: string): number {
    for (let index = 0; index < text.length; index++) {
      if (this.ended) return index;
      const character = text[index] ?? '';
      if (this.#inText) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (character === '\\') this.#isEscaped = true;
        else if (character === '"') this.#inText = false;
        if (!this.#inText && this.#depth === 0) this.ended = true;
        continue;
      }
      if (character === '"') this.#inText = true;
      else if (character === '{' || character === '[') this.#depth++;
      else if (character === '}' || character === ']') {
        // The end of what contains a number or a word.
        if (this.#depth === 0) {
          this.ended = true;
          return index;
        }
        this.#depth--;
        if (this.#depth === 0) this.ended = true;
      } else if (this.#depth === 0 && this.#begun && (character === ',' || character.trim() === '')) {
        this.ended = true;
        return index;
      }
      this.#begun = true;
    }
    return text.length;
  }
}
