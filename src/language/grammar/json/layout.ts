import { LanguageError } from '../../error.ts';
import type { JsonStyle } from '../constraint.ts';
import {
  characters,
  choice,
  type Expression,
  intersection,
  literal,
  NOTHING,
  optional,
  repeat,
  rule,
  sequence,
} from '../expression.ts';
import { type Spelling, wholeMatch } from '../regex.ts';
import type { Located } from './conjunction.ts';
import { anyDistinctNumber, anyInteger, anyNumber, plainNumeral } from './decimals.ts';
import { anyString } from './string.ts';

const VALUE = 'json value';
const DISTINCT_VALUE = 'json distinct value';
const STRING = 'json string';
const SPACE = 'json space';

/** JSON white space (RFC 8259, section 2). */
const JSON_SPACE = [
  [0x09, 0x0a],
  [0x0d, 0x0d],
  [0x20, 0x20],
] as const;

/** The values that match all schemas, in a layout. */
export type CompileIn = (layout: JsonLayout, schemas: readonly Located[]) => Expression;

/** How the members of an object are written. */
export interface ObjectLayout {
  /** Between two members. */
  readonly separator: Expression;
  /** A named member, up to what follows it. */
  property(name: string, value: Expression): Expression;
  /** A member, up to what follows it. */
  member(key: Expression, value: Expression): Expression;
  object(members: Expression): Expression;
  /** The values of a member that match all schemas, where they are not written as in an object. `name`: null for any other. */
  argument?(name: string | null, schemas: readonly Located[], compileIn: CompileIn): Expression;
  /** Exactly one value. */
  constant(value: unknown): Expression;
}

/** The words of JSON, and what takes their place in Python. */
const [jsonWords, pythonWords] = [
  { true: 'true', false: 'false', null: 'null' },
  { true: 'True', false: 'False', null: 'None' },
];

interface LayoutOptions extends JsonStyle {
  /** Words of Python. Default false. */
  isPython?: boolean;
  /**
   * Equal values have the same text: no white space, one text for each number, names of objects in their order, and
   * further ones only in an object without others, at most one. Default false.
   */
  isDistinct?: boolean;
}

/**
 * How JSON is put together from its tokens: without white space, or with the white space of a style between any two
 * tokens, but not before the first or after the last (as in outlines and xgrammar). With the words of Python, it is what
 * Python writes too.
 */
export class JsonLayout implements ObjectLayout {
  /** Objects whose schema names properties and does not mention further ones have no further ones. */
  readonly closed: boolean;
  readonly isDistinct: boolean;
  readonly anyValue: Expression;
  readonly anyKey: Expression = rule(STRING);
  readonly anyObject: Expression;
  /** All values of each JSON type. */
  readonly valuesOfType: ReadonlyMap<string, Expression>;
  /** The rules that a layout's expressions call. */
  readonly rules: ReadonlyMap<string, Expression>;
  readonly #space: Expression | null;
  readonly #isPython: boolean;
  readonly #words: typeof jsonWords;
  #distinct: JsonLayout | undefined;

  constructor({ whitespace, closed = true, isPython = false, isDistinct = false }: LayoutOptions = {}) {
    this.closed = closed;
    this.isDistinct = isDistinct;
    const value = isDistinct ? DISTINCT_VALUE : VALUE;
    this.anyValue = rule(value);
    this.#isPython = isPython;
    this.#words = isPython ? pythonWords : jsonWords;
    this.#space = whitespace === undefined ? null : rule(SPACE);
    this.anyObject = isDistinct
      ? this.object(optional(this.member(this.anyKey, this.anyValue)))
      : this.objectOf(this.anyKey, this.anyValue);
    this.valuesOfType = new Map([
      ['string', this.anyKey],
      ['number', isDistinct ? anyDistinctNumber : anyNumber],
      ['integer', anyInteger],
      ['boolean', choice([literal(this.#words.true), literal(this.#words.false)])],
      ['null', literal(this.#words.null)],
      ['object', this.anyObject],
      ['array', this.enclosed('[', this.#members(this.withSpace(this.anyValue)), ']')],
    ]);
    const values = [...this.valuesOfType].filter(([type]) => type !== 'integer');
    this.rules = new Map([
      [STRING, anyString],
      [value, choice(values.map(([, expression]) => expression))],
      ...(whitespace === undefined ? [] : [[SPACE, spaceOf(whitespace)] as const]),
    ]);
  }

  /** The layout for items that are compared by their text. */
  get distinct(): JsonLayout {
    if (this.isDistinct) return this;
    const options = { closed: this.closed, isPython: this.#isPython, isDistinct: true };
    this.#distinct ??= new JsonLayout(options);
    return this.#distinct;
  }

  /** A punctuation mark, and the white space before what follows it. */
  punctuation(mark: string): Expression {
    return this.withSpace(literal(mark));
  }

  /** A value, and the white space before what follows it. */
  withSpace(value: Expression): Expression {
    return this.#space ? sequence([value, this.#space]) : value;
  }

  get separator(): Expression {
    return this.punctuation(',');
  }

  property(name: string, value: Expression): Expression {
    const text = JSON.stringify(name);
    const before = this.#space ? [this.punctuation(text), this.punctuation(':')] : [literal(`${text}:`)];
    return sequence([...before, this.withSpace(value)]);
  }

  member(key: Expression, value: Expression): Expression {
    return sequence([this.withSpace(key), this.punctuation(':'), this.withSpace(value)]);
  }

  object(members: Expression): Expression {
    return this.enclosed('{', members, '}');
  }

  /** An array or object around its members. */
  enclosed(open: string, members: Expression, close: string): Expression {
    return sequence([this.punctuation(open), members, literal(close)]);
  }

  /** These items, with commas between them. */
  listed(items: readonly Expression[]): Expression[] {
    return items.flatMap((item, index) =>
      index === 0 ? [this.withSpace(item)] : [this.punctuation(','), this.withSpace(item)],
    );
  }

  /** An object with any number of members of this key and value. */
  objectOf(key: Expression, value: Expression): Expression {
    return this.object(this.#members(this.member(key, value)));
  }

  /** Exactly one value, written as by `JSON.stringify` apart from white space and the words of Python. */
  constant(value: unknown): Expression {
    if (typeof value === 'boolean') return literal(value ? this.#words.true : this.#words.false);
    if (value === null) return literal(this.#words.null);
    if (typeof value === 'number' && this.isDistinct) return literal(plainNumeral(value));
    const isCompact = !this.#space && !this.isDistinct;
    if (isCompact || typeof value !== 'object') return literal(JSON.stringify(value));
    if (Array.isArray(value))
      return this.enclosed('[', sequence(this.listed(value.map((item) => this.constant(item)))), ']');
    const entries = Object.entries(value);
    if (this.isDistinct) entries.sort(([left], [right]) => (left < right ? -1 : 1));
    const members = entries.map(([name, item]) => this.property(name, this.constant(item)));
    return this.object(sequence(this.listed(members)));
  }

  #members(member: Expression): Expression {
    return optional(sequence([member, repeat(sequence([this.punctuation(','), member]), 0, null)]));
  }
}

export const compactLayout = new JsonLayout();

/** Texts as they are, without quotes. Only schemas that allow nothing but texts are compiled with it. */
export class TextLayout extends JsonLayout {
  /** Patterns of texts that must not be written. */
  readonly excluded: readonly string[];

  constructor(excluded: readonly string[]) {
    super();
    this.excluded = excluded;
  }

  override constant(value: unknown): Expression {
    const text = String(value);
    return this.excluded.some((pattern) => new RegExp(pattern).test(text)) ? NOTHING : literal(text);
  }
}

/** Reduces the characters of a pattern to JSON's white space, so that `\s` may be used and the JSON stays JSON. */
function spaceOf(pattern: string): Expression {
  const spelling: Spelling = (ranges) => {
    const allowed = intersection(ranges, JSON_SPACE);
    if (allowed.length === 0)
      throw new LanguageError(
        'whitespace_invalid',
        `Whitespace ${JSON.stringify(pattern.slice(0, 80))} has a character that is not JSON white space. Use spaces, \\t, \\n and \\r.`,
      );
    return characters(allowed);
  };
  return wholeMatch(pattern, spelling);
}
