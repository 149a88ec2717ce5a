/** Finds where a JSON value ends. What is no JSON ends where its brackets are closed. */
export class JsonValueScanner {
  readonly #fields: ReadonlySet<string> | undefined;
  /** The name of a field of the outermost object, as far as it is read; null elsewhere. */
  #field: string | null = null;
  #isValue = false;
  /** Whether the outermost object has a field that is not one of `fields`, or begins one. */
  hasOtherField = false;
  #depth = 0;
  #inText = false;
  #isEscaped = false;
  #begun = false;
  ended = false;

  constructor(fields?: ReadonlySet<string>) {
    this.#fields = fields;
  }

  /** Reads on; returns how many of the characters belong to the value. */
  read(text: string): number {
    for (let index = 0; index < text.length; index++) {
      if (this.ended) return index;
      const character = text[index] ?? '';
      if (this.#inText) {
        if (this.#field !== null) this.#readField(this.#field, character);
        if (this.#isEscaped) this.#isEscaped = false;
        else if (character === '\\') this.#isEscaped = true;
        else if (character === '"') this.#inText = false;
        if (!this.#inText && this.#depth === 0) this.ended = true;
        continue;
      }
      if (character === '"') {
        this.#inText = true;
        if (this.#fields && this.#depth === 1 && !this.#isValue) this.#field = '';
      } else if (character === '{' || character === '[') this.#depth++;
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
      if (this.#depth === 1 && (character === ':' || character === ',')) this.#isValue = character === ':';
      this.#begun ||= character.trim() !== '';
    }
    return text.length;
  }

  /** A name with an escape counts as another one. */
  #readField(before: string, character: string): void {
    const isWhole = character === '"';
    const name = isWhole ? before : before + character;
    const fields = this.#fields ?? new Set();
    if (isWhole ? !fields.has(name) : ![...fields].some((field) => field.startsWith(name)))
      this.hasOtherField = true;
    this.#field = isWhole ? null : name;
  }
}
