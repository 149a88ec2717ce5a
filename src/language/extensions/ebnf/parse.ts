import { LanguageError } from '../../error.ts';
import {
  ANY_CHARACTER,
  charactersOf,
  choiceOf,
  type Expression,
  literal,
  repeat,
  rule,
  sequenceOf,
} from '../../grammar/expression.ts';
import { MAXIMUM_DEPTH, MAXIMUM_REPETITIONS, MAXIMUM_SOURCE_LENGTH } from '../../grammar/limits.ts';
import { GrammarReader, type Place, readClass, readLiteral } from './reader.ts';

export interface GrammarRule {
  body: Expression;
  place: Place;
  /** The rules that it calls, and where. */
  calls: { name: string; place: Place }[];
}

/** Macros of other dialects, which look like calls of rules. */
const MACROS = new Set(['TagDispatch', 'TokenTagDispatch', 'Token', 'ExcludeToken', 'Regex']);

/**
 * Parses GBNF as llama.cpp and xgrammar write it. A rule ends where the next one begins, so its alternatives may be on
 * separate lines.
 * @throws LanguageError with line and column.
 */
export function parseRules(source: string): Map<string, GrammarRule> {
  if (source.length > MAXIMUM_SOURCE_LENGTH)
    throw new LanguageError(
      'grammar_too_large',
      `the grammar has ${source.length} characters; the limit is ${MAXIMUM_SOURCE_LENGTH}`,
    );
  return new RuleParser(source).parse();
}

class RuleParser {
  readonly #reader: GrammarReader;
  #calls: GrammarRule['calls'] = [];
  #depth = 0;

  constructor(source: string) {
    this.#reader = new GrammarReader(source);
  }

  parse(): Map<string, GrammarRule> {
    const reader = this.#reader;
    const rules = new Map<string, GrammarRule>();
    for (reader.skipSpace(); !reader.atEnd; reader.skipSpace()) {
      const { place, startsLine } = reader;
      const name = this.#name();
      if (name === '') reader.refuse(`a rule is expected (name ::= ...), not ${this.#shown()}`);
      if (!startsLine) reader.refuse(`the rule ${name} must begin on a line of its own`, place);
      reader.skipSpace();
      if (!reader.take('::=')) reader.refuse(`after the name ${name}, ::= is expected, not ${this.#shown()}`);
      const twice = rules.get(name);
      if (twice) reader.refuse(`the rule ${name} is there already, on line ${twice.place.line}`, place);
      this.#calls = [];
      rules.set(name, { body: this.#alternatives(), place, calls: this.#calls });
      if (reader.peek() === ')') reader.refuse('")" without "("');
    }
    return rules;
  }

  #alternatives(): Expression {
    const alternatives = [this.#sequence()];
    while (this.#reader.take('|')) alternatives.push(this.#sequence());
    return choiceOf(alternatives);
  }

  #sequence(): Expression {
    const parts: Expression[] = [];
    for (;;) {
      this.#reader.skipSpace();
      if (this.#reader.atEnd || /[|)]/.test(this.#reader.peek()) || this.#beginsRule()) break;
      parts.push(this.#repeated(this.#element()));
    }
    const [only] = parts;
    return only && parts.length === 1 ? only : sequenceOf(parts);
  }

  #element(): Expression {
    const reader = this.#reader;
    switch (reader.peek()) {
      case '"':
        return literal(readLiteral(reader));
      case '[':
        return charactersOf(readClass(reader));
      case '.':
        reader.next();
        return charactersOf(ANY_CHARACTER);
      case '(':
        return this.#group();
      default:
        return this.#call();
    }
  }

  #group(): Expression {
    const reader = this.#reader;
    const { place } = reader;
    reader.next();
    if (reader.peek() === '=') reader.refuse('lookahead (= ...) is not supported', place);
    if (++this.#depth > MAXIMUM_DEPTH)
      reader.refuse(`groups are nested more than ${MAXIMUM_DEPTH} deep: make rules of them`, place);
    const inner = this.#alternatives();
    if (!reader.take(')')) reader.refuse('"(" without ")"', place);
    this.#depth--;
    return inner;
  }

  #call(): Expression {
    const { place } = this.#reader;
    const name = this.#name();
    if (name === '')
      this.#reader.refuse(
        `${this.#shown()} is no part of a rule: literals in double quotes, classes, ., groups and names are`,
      );
    if (MACROS.has(name) && this.#reader.peek() === '(')
      this.#reader.refuse(`${name}(...) is not supported: say it in rules`, place);
    this.#calls.push({ name, place });
    return rule(name);
  }

  #repeated(body: Expression): Expression {
    const reader = this.#reader;
    reader.skipSpace();
    const { place } = reader;
    const counts = this.#counts();
    if (!counts) return body;
    const [minimum, maximum] = counts;
    if (maximum !== null && maximum < minimum)
      reader.refuse(`the repetition {${minimum},${maximum}} ends before it begins`, place);
    if (Math.max(minimum, maximum ?? 0) > MAXIMUM_REPETITIONS)
      reader.refuse(`a repetition of more than ${MAXIMUM_REPETITIONS}`, place);
    reader.skipSpace();
    if (/[*+?{]/.test(reader.peek()))
      reader.refuse('a repetition of a repetition: put the inner one in parentheses');
    return repeat(body, minimum, maximum);
  }

  #counts(): [number, number | null] | null {
    const reader = this.#reader;
    if (reader.take('*')) return [0, null];
    if (reader.take('+')) return [1, null];
    if (reader.take('?')) return [0, 1];
    if (!reader.take('{')) return null;
    const minimum = this.#number() ?? reader.refuse('a repetition is written {m}, {m,} or {m,n}');
    let maximum: number | null = minimum;
    reader.skipSpace();
    if (reader.take(',')) maximum = this.#number();
    reader.skipSpace();
    if (!reader.take('}')) reader.refuse('a repetition is written {m}, {m,} or {m,n}');
    return [minimum, maximum];
  }

  #number(): number | null {
    this.#reader.skipSpace();
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

  #shown(): string {
    return this.#reader.atEnd ? 'the end' : JSON.stringify(this.#reader.peek());
  }
}
