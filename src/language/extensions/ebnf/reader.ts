import { LanguageError } from '../../error.ts';
import { type CodePointRange, complement } from '../../grammar/expression.ts';

export interface Place {
  line: number;
  column: number;
}

export function refuseGrammar(what: string, { line, column }: Place): never {
  throw new LanguageError('ebnf_invalid', `grammar, line ${line}, column ${column}: ${what}`);
}

/** Reads the characters of a grammar, and tracks line and column. */
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

  /** Whether only white space comes before it on its line. */
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

  /** Reads characters while they match `kind`, at most `limit`. */
  takeWhile(kind: RegExp, limit = Number.POSITIVE_INFINITY): string {
    let taken = '';
    while (taken.length < limit && !this.atEnd && kind.test(this.peek())) taken += this.next();
    return taken;
  }

  /** Skips white space, line ends and comments. */
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

const ESCAPES: ReadonlyMap<string, number> = new Map([
  ['n', 0x0a],
  ['r', 0x0d],
  ['t', 0x09],
  ['f', 0x0c],
  ['v', 0x0b],
  ['a', 0x07],
  ['b', 0x08],
  ['e', 0x1b],
  ['0', 0x00],
]);
/** Number of hexadecimal digits that follow. */
const HEXADECIMAL: ReadonlyMap<string, number> = new Map([
  ['x', 2],
  ['u', 4],
  ['U', 8],
]);

/** The text of a literal, from its opening quote to its closing one. */
export function readLiteral(reader: GrammarReader): string {
  const { place } = reader;
  reader.next();
  const codes: number[] = [];
  while (!reader.take('"')) {
    if (reader.atEnd || reader.peek() === '\n')
      reader.refuse('a literal has no closing quote on its line; a line end in it is written \\n', place);
    codes.push(readCharacter(reader));
  }
  return codes.map((code) => String.fromCodePoint(code)).join('');
}

/** The characters of a class, from `[` to `]`. */
export function readClass(reader: GrammarReader): readonly CodePointRange[] {
  const { place } = reader;
  reader.next();
  const negated = reader.take('^');
  const ranges: CodePointRange[] = [];
  while (!reader.take(']')) {
    if (reader.atEnd || reader.peek() === '\n')
      reader.refuse('a character class has no "]" on its line; a line end in it is written \\n', place);
    const from = reader.place;
    const first = readCharacter(reader);
    let last = first;
    if (reader.peek() === '-' && reader.peek(1) !== ']') {
      reader.next();
      last = readCharacter(reader);
    }
    if (last < first) reader.refuse('a character range runs backwards', from);
    ranges.push([first, last]);
  }
  const members = negated ? complement(ranges) : ranges;
  if (members.length === 0) reader.refuse('nothing is in this character class', place);
  return members;
}

function readCharacter(reader: GrammarReader): number {
  const { place } = reader;
  const character = reader.next();
  if (character !== '\\') return codeOf(character);
  const letter = reader.next();
  const control = ESCAPES.get(letter);
  if (control !== undefined) return control;
  const digits = HEXADECIMAL.get(letter);
  if (digits === undefined) {
    if (/[A-Za-z1-9]/.test(letter))
      reader.refuse(
        `the escape \\${letter} is not known; write the character, or its code as \\u0041`,
        place,
      );
    return codeOf(letter);
  }
  const written = reader.takeWhile(/[0-9A-Fa-f]/, digits);
  if (written.length < digits) reader.refuse(`\\${letter} needs ${digits} hexadecimal digits`, place);
  const code = Number.parseInt(written, 16);
  if (code > 0x10ffff) reader.refuse(`\\${letter}${written} is beyond the last character, U+10FFFF`, place);
  if (code >= 0xd800 && code <= 0xdfff)
    reader.refuse(`\\${letter}${written} is half a character; write the whole as \\U0001F600`, place);
  return code;
}

const codeOf = (character: string): number => character.codePointAt(0) ?? 0;
