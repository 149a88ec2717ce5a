import { LanguageError } from '../../error.ts';

export interface Place {
  line: number;
  column: number;
}

export function refuseGrammar(what: string, { line, column }: Place): never {
  throw new LanguageError('ebnf_invalid', `grammar, line ${line}, column ${column}: ${what}`);
}

/** Goes through the characters of a grammar and knows the line and column it is at. */
export class GrammarReader {
  readonly #characters: string[];
  #index = 0;
  #line = 1;
  #column = 1;

  constructor(source: string) {
    this.#characters = [...source.toWellFormed().replaceAll(/\r\n?/g, '\n')];
  }

  get place(): Place {
    return { line: this.#line, column: this.#column };
  }

  get atEnd(): boolean {
    return this.#index >= this.#characters.length;
  }

  /** Nothing but white space stands before it on its line. */
  get startsLine(): boolean {
    let before = this.#index - 1;
    while (before >= 0 && /[ \t]/.test(this.#characters[before]!)) before--;
    return before < 0 || this.#characters[before] === '\n';
  }

  peek(ahead = 0): string {
    return this.#characters[this.#index + ahead] ?? '';
  }

  next(): string {
    const character = this.#characters[this.#index];
    if (character === undefined) return this.refuse('it ends in the middle of an expression');
    this.#index++;
    if (character === '\n') {
      this.#line++;
      this.#column = 1;
    } else this.#column++;
    return character;
  }

  take(text: string): boolean {
    for (let ahead = 0; ahead < text.length; ahead++) if (this.peek(ahead) !== text[ahead]) return false;
    for (let count = 0; count < text.length; count++) this.next();
    return true;
  }

  /** Characters as long as they are of a kind, at most `limit`. */
  takeWhile(kind: RegExp, limit = Number.POSITIVE_INFINITY): string {
    let taken = '';
    while (taken.length < limit && !this.atEnd && kind.test(this.peek())) taken += this.next();
    return taken;
  }

  /** Passes white space, line ends and comments. */
  skipSpace(): void {
    for (;;) {
      this.takeWhile(/[ \t\n]/);
      if (this.peek() !== '#') return;
      this.takeWhile(/[^\n]/);
    }
  }

  refuse(what: string, place: Place = this.place): never {
    return refuseGrammar(what, place);
  }
}
