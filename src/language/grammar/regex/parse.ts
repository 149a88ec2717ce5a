import { LanguageError } from '../../error.ts';
import { ANY_CHARACTER, type CodePointRange, complement } from '../expression.ts';
import { MAXIMUM_DEPTH, MAXIMUM_REPETITIONS, MAXIMUM_SOURCE_LENGTH } from '../limits.ts';

export type Pattern =
  | { kind: 'set'; ranges: readonly CodePointRange[] }
  | { kind: 'sequence'; parts: Pattern[] }
  | { kind: 'choice'; alternatives: Pattern[] }
  | { kind: 'repeat'; body: Pattern; minimum: number; maximum: number | null }
  | { kind: 'start' }
  | { kind: 'end' };

const DIGITS: CodePointRange[] = [[0x30, 0x39]];
const WORD: CodePointRange[] = [...DIGITS, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
/** White space and line ends of ECMAScript. */
const SPACE: CodePointRange[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: CodePointRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
/** Classes that are named by a letter after a backslash. */
const NAMED_CLASSES: ReadonlyMap<string, CodePointRange[]> = new Map([
  ['d', DIGITS],
  ['D', complement(DIGITS)],
  ['w', WORD],
  ['W', complement(WORD)],
  ['s', SPACE],
  ['S', complement(SPACE)],
]);

const CONTROL_ESCAPES = new Map(Object.entries({ n: 0x0a, r: 0x0d, t: 0x09, f: 0x0c, v: 0x0b, 0: 0x00 }));

const LONGEST_GROUP_NAME = 100;

/** Parses an ECMAScript regular expression. Syntax that a grammar cannot follow is refused by name. */
export function parsePattern(source: string): Pattern {
  if (source.length > MAXIMUM_SOURCE_LENGTH)
    throw new LanguageError(
      'grammar_too_large',
      `a regular expression has ${source.length} characters; the limit is ${MAXIMUM_SOURCE_LENGTH}`,
    );
  return new PatternParser(source).parse();
}

class PatternParser {
  readonly #source: string;
  readonly #characters: string[];
  #index = 0;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
    this.#characters = [...source];
  }

  parse(): Pattern {
    const pattern = this.#alternatives();
    if (this.#index < this.#characters.length) this.#refuse('")" without "("');
    return pattern;
  }

  #alternatives(): Pattern {
    const alternatives = [this.#sequence()];
    while (this.#take('|')) alternatives.push(this.#sequence());
    return alternatives.length === 1 ? alternatives[0]! : { kind: 'choice', alternatives };
  }

  #sequence(): Pattern {
    const parts: Pattern[] = [];
    while (this.#index < this.#characters.length && this.#peek() !== '|' && this.#peek() !== ')')
      parts.push(this.#quantified(this.#atom()));
    return parts.length === 1 ? parts[0]! : { kind: 'sequence', parts };
  }

  #quantified(body: Pattern): Pattern {
    const counts = this.#quantifier();
    if (!counts) return body;
    if (body.kind === 'start' || body.kind === 'end') this.#refuse('a repeated anchor');
    this.#take('?');
    const [minimum, maximum] = counts;
    if (maximum !== null && maximum < minimum) this.#refuse(`the repetition {${minimum},${maximum}}`);
    if (Math.max(minimum, maximum ?? 0) > MAXIMUM_REPETITIONS)
      this.#refuse(`a repetition of more than ${MAXIMUM_REPETITIONS}`);
    return { kind: 'repeat', body, minimum, maximum };
  }

  #quantifier(): [number, number | null] | null {
    if (this.#take('*')) return [0, null];
    if (this.#take('+')) return [1, null];
    if (this.#take('?')) return [0, 1];
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(
      this.#characters.slice(this.#index, this.#index + 24).join(''),
    );
    if (!counted) return null;
    this.#index += counted[0].length;
    const minimum = Number(counted[1]);
    if (counted[2] === undefined) return [minimum, minimum];
    return [minimum, counted[3] === '' ? null : Number(counted[3])];
  }

  #atom(): Pattern {
    const character = this.#next();
    switch (character) {
      case '(':
        return this.#group();
      case '[':
        return this.#set();
      case '.':
        return { kind: 'set', ranges: complement(LINE_ENDS) };
      case '^':
        return { kind: 'start' };
      case '$':
        return { kind: 'end' };
      case '\\':
        return { kind: 'set', ranges: this.#escape(false) };
      case '*':
      case '+':
      case '?':
        return this.#refuse(`"${character}" with nothing to repeat`);
      default:
        return { kind: 'set', ranges: [single(character)] };
    }
  }

  #group(): Pattern {
    if (this.#take('?')) {
      const ahead = this.#characters.slice(this.#index, this.#index + LONGEST_GROUP_NAME).join('');
      const name = /^(:|<[A-Za-z_$][\w$]*>)/.exec(ahead)?.[0];
      if (!name) this.#refuse(`the group (?${this.#characters.slice(this.#index, this.#index + 2).join('')}`);
      else this.#index += name.length;
    }
    if (++this.#depth > MAXIMUM_DEPTH) this.#refuse(`more than ${MAXIMUM_DEPTH} groups in each other`);
    const inner = this.#alternatives();
    if (!this.#take(')')) this.#refuse('"(" without ")"');
    this.#depth--;
    return inner;
  }

  #set(): Pattern {
    const negated = this.#take('^');
    const ranges: CodePointRange[] = [];
    while (!this.#take(']')) {
      const first = this.#setMember();
      const isRange = this.#peek() === '-' && (this.#characters[this.#index + 1] ?? ']') !== ']';
      if (!isRange) {
        ranges.push(...first);
        continue;
      }
      const hyphen = single(this.#next());
      const last = this.#setMember();
      if (isSingle(first) && isSingle(last)) {
        if (first[0]![0] > last[0]![0]) this.#refuse('a character range that runs backwards');
        ranges.push([first[0]![0], last[0]![0]]);
      } else ranges.push(...first, hyphen, ...last);
    }
    const members = negated ? complement(ranges) : ranges;
    if (members.length === 0) this.#refuse('a character class that nothing is in');
    return { kind: 'set', ranges: members };
  }

  #setMember(): readonly CodePointRange[] {
    const character = this.#next();
    return character === '\\' ? this.#escape(true) : [single(character)];
  }

  #escape(inSet: boolean): readonly CodePointRange[] {
    const letter = this.#next();
    const named = NAMED_CLASSES.get(letter);
    if (named) return named;
    const control = CONTROL_ESCAPES.get(letter);
    if (control !== undefined) return [[control, control]];
    if (letter === 'b' && inSet) return [[0x08, 0x08]];
    if (letter === 'x') return [this.#hexadecimal(/^[0-9A-Fa-f]{2}/)];
    if (letter === 'u') return [this.#hexadecimal(/^(?:\{[0-9A-Fa-f]{1,6}\}|[0-9A-Fa-f]{4})/)];
    if (/[A-Za-z1-9]/.test(letter)) this.#refuse(`\\${letter}`);
    return [single(letter)];
  }

  #hexadecimal(form: RegExp): CodePointRange {
    const digits = form.exec(this.#characters.slice(this.#index, this.#index + 8).join(''))?.[0];
    if (!digits) return this.#refuse('an escape without its hexadecimal digits');
    this.#index += digits.length;
    const value = Number.parseInt(digits.replace(/[{}]/g, ''), 16);
    if (value > ANY_CHARACTER[0]![1]) this.#refuse(`the code point ${digits}`);
    return [value, value];
  }

  #peek(): string | undefined {
    return this.#characters[this.#index];
  }

  #next(): string {
    const character = this.#characters[this.#index++];
    return character ?? this.#refuse('an end in the middle of an expression');
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#index++;
    return true;
  }

  #refuse(what: string): never {
    throw new LanguageError(
      'regex_unsupported',
      `regular expression ${shownPattern(this.#source)}: ${what} cannot be followed, near character ${this.#index}; ` +
        'what can: literals, classes, groups, |, *, +, ?, {m,n}, ^ at the beginning and $ at the end',
    );
  }
}

/** A pattern as messages show it. */
export function shownPattern(source: string): string {
  return JSON.stringify(source.length > 200 ? `${source.slice(0, 200)}…` : source);
}

function single(character: string): CodePointRange {
  const code = character.codePointAt(0)!;
  return [code, code];
}

const isSingle = (ranges: readonly CodePointRange[]) =>
  ranges.length === 1 && ranges[0]![0] === ranges[0]![1];
