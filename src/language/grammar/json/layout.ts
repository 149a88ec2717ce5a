import type { JsonStyle } from '../../constraint/constraint.ts';
import { LanguageError } from '../../error.ts';
import {
  charactersOf,
  choice,
  choiceOf,
  type Expression,
  intersection,
  literal,
  optional,
  repeat,
  rule,
  sequence,
} from '../expression.ts';
import { type Spelling, wholeMatch } from '../regex/regex.ts';
import { anyInteger, anyNumber } from './number.ts';
import { anyString } from './string.ts';

const VALUE = 'json value';
const STRING = 'json string';
const SPACE = 'json space';

/** JSON white space (RFC 8259, section 2). */
const JSON_SPACE = [
  [0x09, 0x0a],
  [0x0d, 0x0d],
  [0x20, 0x20],
] as const;

/**
 * How JSON is put together from its tokens: without white space, or with the white space of a style between any two
 * tokens, but not before the first or after the last (as in outlines and xgrammar).
 */
export class JsonLayout {
  /** Objects whose schema names properties and does not mention further ones have no further ones. */
  readonly closed: boolean;
  readonly anyValue: Expression = rule(VALUE);
  readonly anyKey: Expression = rule(STRING);
  readonly anyObject: Expression;
  /** All values of each JSON type. */
  readonly valuesOfType: ReadonlyMap<string, Expression>;
  /** The rules that a layout's expressions call. */
  readonly rules: ReadonlyMap<string, Expression>;
  readonly #space: Expression | null;

  constructor({ whitespace, closed = true }: JsonStyle = {}) {
    this.closed = closed;
    this.#space = whitespace === undefined ? null : rule(SPACE);
    this.anyObject = this.objectOf(this.anyKey, this.anyValue);
    this.valuesOfType = new Map([
      ['string', this.anyKey],
      ['number', anyNumber],
      ['integer', anyInteger],
      ['boolean', choice(literal('true'), literal('false'))],
      ['null', literal('null')],
      ['object', this.anyObject],
      ['array', sequence(this.mark('['), this.#members(this.spaced(this.anyValue)), literal(']'))],
    ]);
    const values = [...this.valuesOfType].filter(([type]) => type !== 'integer');
    this.rules = new Map([
      [STRING, anyString],
      [VALUE, choiceOf(values.map(([, expression]) => expression))],
      ...(whitespace === undefined ? [] : [[SPACE, spaceOf(whitespace)] as const]),
    ]);
  }

  /** A punctuation mark, and the white space before what follows it. */
  mark(text: string): Expression {
    return this.spaced(literal(text));
  }

  /** A value, and the white space before what follows it. */
  spaced(value: Expression): Expression {
    return this.#space ? sequence(value, this.#space) : value;
  }

  /** A member's name and colon, up to its value. */
  name(name: string): Expression {
    const text = JSON.stringify(name);
    return this.#space ? sequence(this.mark(text), this.mark(':')) : literal(`${text}:`);
  }

  /** A member, up to the comma or brace that follows it. */
  member(key: Expression, value: Expression): Expression {
    return sequence(this.spaced(key), this.mark(':'), this.spaced(value));
  }

  /** An object with any number of members of this key and value. */
  objectOf(key: Expression, value: Expression): Expression {
    return sequence(this.mark('{'), this.#members(this.member(key, value)), literal('}'));
  }

  /** Exactly one value, written as by `JSON.stringify` apart from white space. */
  constant(value: unknown): Expression {
    if (!this.#space || typeof value !== 'object' || value === null) return literal(JSON.stringify(value));
    const [open, close, members] = Array.isArray(value)
      ? ['[', ']', value.map((item) => this.constant(item))]
      : [
          '{',
          '}',
          Object.entries(value).map(([name, item]) => sequence(this.name(name), this.constant(item))),
        ];
    const written = members.flatMap((member, index) =>
      index === 0 ? [this.spaced(member)] : [this.mark(','), this.spaced(member)],
    );
    return sequence(this.mark(open), ...written, literal(close));
  }

  #members(member: Expression): Expression {
    return optional(sequence(member, repeat(sequence(this.mark(','), member), 0, null)));
  }
}

export const compactLayout = new JsonLayout();

/** Reduces the characters of a pattern to JSON's white space, so that `\s` may be used and the JSON stays JSON. */
function spaceOf(pattern: string): Expression {
  const spelling: Spelling = (ranges) => {
    const admitted = intersection(ranges, JSON_SPACE);
    if (admitted.length === 0)
      throw new LanguageError(
        'whitespace_invalid',
        `whitespace ${JSON.stringify(pattern.slice(0, 80))} has a character that is no white space of JSON: write it with spaces, \\t, \\n and \\r`,
      );
    return charactersOf(admitted);
  };
  return wholeMatch(pattern, spelling);
}

/** Compiles the parts of a schema. The files for each type need this much of the compiler. */
export interface SchemaScope {
  compile(schema: unknown, place: string): Expression;
  /** Makes a rule, so that an expression with many uses is built once. */
  share(name: string, expression: Expression): Expression;
  /** A rule that is shared under this name, now or later. */
  called(name: string): Expression;
  readonly layout: JsonLayout;
}
