import { LanguageError } from '../../error.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  characters,
  choice,
  type Expression,
  literal,
  repeat,
  rule,
  sequence,
} from '../../grammar/expression.ts';
import { CONTROL_ESCAPES, SourceReader } from '../../grammar/source-reader.ts';

export interface GrammarRule {
  body: Expression;
  /** Index of the rule in the source. */
  index: number;
  /** The rules that it calls, and where. */
  calls: { name: string; index: number }[];
}

/** Macros of other dialects, which look like calls of rules. */
const MACROS = new Set(['TagDispatch', 'TokenTagDispatch', 'Token', 'ExcludeToken', 'Regex']);

const ESCAPES = new Map([...CONTROL_ESCAPES, ...Object.entries({ a: 0x07, b: 0x08, e: 0x1b })]);
/** Number of hexadecimal digits that follow. */
const HEXADECIMAL = new Map(Object.entries({ x: 2, u: 4, U: 8 }));

/** Reads a GBNF grammar. Its errors are `LanguageError`s with line and column. */
export function grammarReader(source: string): SourceReader {
  const text = source.toWellFormed().replaceAll(/\r\n?/g, '\n');
  const reader: SourceReader = new SourceReader(text, 'The grammar', (what, index) => {
    const { line, column } = reader.positionOf(index);
    return new LanguageError('ebnf_invalid', `Grammar, line ${line}, column ${column}: ${what}.`);
  });
  return reader;
}

/**
 * Parses GBNF as llama.cpp and xgrammar write it. A rule ends where the next one begins, so its alternatives may be on
 * separate lines.
 */
export class RuleParser {
  readonly #reader: SourceReader;
  #calls: GrammarRule['calls'] = [];

  constructor(reader: SourceReader) {
    this.#reader = reader;
  }

  parse(): Map<string, GrammarRule> {
    const reader = this.#reader;
    const rules = new Map<string, GrammarRule>();
    for (this.#skipSpace(); !reader.atEnd; this.#skipSpace()) {
      const { index } = reader;
      const name = this.#name();
      if (name === '') reader.refuse(`a rule is expected (name ::= ...), not ${this.#shown()}`);
      if (!reader.startsLine(index)) reader.refuse(`the rule ${name} must begin on its own line`, index);
      this.#skipSpace();
      if (!reader.take('::=')) reader.refuse(`after the name ${name}, ::= is expected, not ${this.#shown()}`);
      const first = rules.get(name);
      if (first)
        reader.refuse(
          `the rule ${name} is already defined on line ${reader.positionOf(first.index).line}`,
          index,
        );
      this.#calls = [];
      rules.set(name, { body: this.#alternatives(), index, calls: this.#calls });
      if (reader.peek() === ')') reader.refuse('")" without "("');
    }
    return rules;
  }

  #alternatives(): Expression {
    const alternatives = [this.#sequence()];
    while (this.#reader.take('|')) alternatives.push(this.#sequence());
    return choice(alternatives);
  }

  #sequence(): Expression {
    const parts: Expression[] = [];
    for (;;) {
      this.#skipSpace();
      if (this.#reader.atEnd || /[|)]/.test(this.#reader.peek()) || this.#beginsRule()) break;
      parts.push(this.#repeated(this.#element()));
    }
    return parts.length === 1 ? parts[0]! : sequence(parts);
  }

  #element(): Expression {
    const reader = this.#reader;
    if (reader.take('"')) return literal(this.#literal());
    const start = reader.index;
    if (reader.take('[')) return characters(reader.characterClass(() => this.#classMember(start)));
    if (reader.take('.')) return characters(ANY_CHARACTER);
    if (!reader.take('(')) return this.#call();
    if (reader.peek() === '=') reader.refuse('lookahead (= ...) is not supported', start);
    return reader.group(() => this.#alternatives());
  }

  #call(): Expression {
    const reader = this.#reader;
    const { index } = reader;
    const name = this.#name();
    if (name === '')
      reader.refuse(
        `${this.#shown()} is not part of a rule; allowed are literals in double quotes, classes, ., groups and names`,
      );
    if (MACROS.has(name) && reader.peek() === '(')
      reader.refuse(`${name}(...) is not supported: write it as rules`, index);
    this.#calls.push({ name, index });
    return rule(name);
  }

  #repeated(body: Expression): Expression {
    const reader = this.#reader;
    this.#skipSpace();
    const { index } = reader;
    const counts = reader.repetitionSign() ?? this.#counts();
    if (!counts) return body;
    reader.checkRepetition(...counts, index);
    this.#skipSpace();
    if (/[*+?{]/.test(reader.peek()))
      reader.refuse('a repetition of a repetition: put the inner one in parentheses');
    return repeat(body, ...counts);
  }

  #counts(): [minimum: number, maximum: number | null] | null {
    const reader = this.#reader;
    if (!reader.take('{')) return null;
    const minimum = this.#number() ?? reader.refuse('a repetition is written {m}, {m,} or {m,n}');
    let maximum: number | null = minimum;
    this.#skipSpace();
    if (reader.take(',')) maximum = this.#number();
    this.#skipSpace();
    if (!reader.take('}')) reader.refuse('a repetition is written {m}, {m,} or {m,n}');
    return [minimum, maximum];
  }

  #number(): number | null {
    this.#skipSpace();
    const digits = this.#reader.takeWhile(/[0-9]/);
    return digits === '' ? null : Number(digits);
  }

  /** Empty if there is no name here. */
  #name(): string {
    const reader = this.#reader;
    let name = reader.takeWhile(/[A-Za-z0-9_-]/);
    while (name !== '' && reader.peek() === '.' && /[A-Za-z0-9_-]/.test(reader.peek(1)))
      name += reader.next() + reader.takeWhile(/[A-Za-z0-9_-]/);
    return name;
  }

  #beginsRule(): boolean {
    const reader = this.#reader;
    let ahead = 0;
    while (/[A-Za-z0-9_.-]/.test(reader.peek(ahead))) ahead++;
    if (ahead === 0) return false;
    while (/[ \t\n]/.test(reader.peek(ahead))) ahead++;
    return reader.peek(ahead) === ':';
  }

  /** The text of a literal, whose opening quote has been read, up to its closing one. */
  #literal(): string {
    const reader = this.#reader;
    const start = reader.index - 1;
    const codes: number[] = [];
    while (!reader.take('"')) {
      if (reader.atEnd || reader.peek() === '\n')
        reader.refuse('a literal has no closing quote on its line; a line end in it is written \\n', start);
      codes.push(this.#character());
    }
    return codes.map((code) => String.fromCodePoint(code)).join('');
  }

  #classMember(start: number): CodePointRange[] {
    const reader = this.#reader;
    if (reader.atEnd || reader.peek() === '\n')
      reader.refuse('a character class has no "]" on its line; a line end in it is written \\n', start);
    const code = this.#character();
    return [[code, code]];
  }

  #character(): number {
    const reader = this.#reader;
    const { index } = reader;
    const character = reader.next();
    if (character !== '\\') return character.codePointAt(0)!;
    const letter = reader.next();
    const control = ESCAPES.get(letter);
    if (control !== undefined) return control;
    const digits = HEXADECIMAL.get(letter);
    if (digits === undefined) {
      if (/[A-Za-z1-9]/.test(letter))
        reader.refuse(
          `the escape \\${letter} is unknown; write the character, or its code as \\u0041`,
          index,
        );
      return letter.codePointAt(0)!;
    }
    const written = reader.takeWhile(/[0-9A-Fa-f]/, digits);
    if (written.length < digits) reader.refuse(`\\${letter} needs ${digits} hexadecimal digits`, index);
    const code = Number.parseInt(written, 16);
    if (code > 0x10ffff) reader.refuse(`\\${letter}${written} is beyond the last character, U+10FFFF`, index);
    if (code >= 0xd800 && code <= 0xdfff)
      reader.refuse(
        `\\${letter}${written} is half of a surrogate pair; write the whole character as \\U0001F600`,
        index,
      );
    return code;
  }

  /** Skips white space, line ends and comments. */
  #skipSpace(): void {
    for (;;) {
      this.#reader.takeWhile(/[ \t\n]/);
      if (this.#reader.peek() !== '#') return;
      this.#reader.takeWhile(/[^\n]/);
    }
  }

  #shown(): string {
    return this.#reader.atEnd ? 'the end' : JSON.stringify(this.#reader.peek());
  }
}
