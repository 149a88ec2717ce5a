import { sumOf } from '../../util/sums.ts';
import { spend, step, TemplateError } from './budget.ts';

export { TemplateError } from './budget.ts';

/**
 * A value of a template, with Python's types: `bigint` is an int, `number` a float, a Map a dict, an array a list or a
 * tuple, null is None. `undefined` is what Jinja calls undefined.
 */
export type Value =
  | undefined
  | null
  | boolean
  | bigint
  | number
  | string
  | Value[]
  | Map<string, Value>
  | Namespace
  | Callable;

export type Keywords = ReadonlyMap<string, Value>;
export type Callable = (args: readonly Value[], keywords: Keywords) => Value;

export class Tuple extends Array<Value> {
  // What `map` and `filter` make is a list.
  static override get [Symbol.species]() {
    return Array;
  }
}

/** What `groupby` makes: a value, which is also its `grouper`, and the `list` of the items that have it. */
export class Group extends Tuple {}

/** What `namespace()` makes: fields that a template may set anywhere. */
export class Namespace {
  readonly fields: Map<string, Value>;

  constructor(fields: Map<string, Value>) {
    this.fields = fields;
  }
}

export const isNumeric = (value: Value): value is boolean | bigint | number =>
  typeof value === 'boolean' || typeof value === 'bigint' || typeof value === 'number';

const pythonNames: Readonly<Record<string, string>> = {
  boolean: 'bool',
  bigint: 'int',
  number: 'float',
  string: 'str',
};

export function typeName(value: Value): string {
  if (value === undefined) return 'undefined';
  if (value === null) return 'None';
  if (value instanceof Tuple) return 'tuple';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof Namespace) return 'namespace';
  return pythonNames[typeof value] ?? typeof value;
}

export function isTrue(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return Boolean(value);
}

/** Python's `==`. */
export function equal(left: Value, right: Value): boolean {
  step(0.125);
  if (isNumeric(left) && isNumeric(right))
    return typeof left === 'number' || typeof right === 'number'
      ? Number(left) === Number(right)
      : BigInt(left) === BigInt(right);
  if (Array.isArray(left) && Array.isArray(right))
    return (
      left instanceof Tuple === right instanceof Tuple &&
      left.length === right.length &&
      left.every((item, index) => equal(item, right[index]))
    );
  if (left instanceof Map && right instanceof Map)
    return (
      left.size === right.size &&
      [...left].every(([key, item]) => right.has(key) && equal(item, right.get(key)))
    );
  return left === right;
}

/** Below, at or above zero, as Python orders the values. */
export function compare(left: Value, right: Value): number {
  if (isNumeric(left) && isNumeric(right)) {
    // JavaScript compares a bigint with a number exactly.
    const [one, other] = [left, right].map((value) => (typeof value === 'boolean' ? Number(value) : value));
    if (one === undefined || other === undefined) return 0;
    return one < other ? -1 : one > other ? 1 : 0;
  }
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  if (Array.isArray(left) && Array.isArray(right)) {
    const at = left.findIndex((item, index) => !equal(item, right[index]));
    return at < 0 || at >= right.length ? left.length - right.length : compare(left[at], right[at]);
  }
  throw new TemplateError(`${typeName(left)} cannot be compared with ${typeName(right)}`);
}

/** By code points, where JavaScript compares UTF-16 units. */
function compareText(left: string, right: string): number {
  const [one, other] = [left, right].map((text) => text[Symbol.iterator]());
  for (;;) {
    const [a, b] = [one?.next().value?.codePointAt(0) ?? -1, other?.next().value?.codePointAt(0) ?? -1];
    if (a !== b) return a - b;
    if (a === -1) return 0;
  }
}

/** The key of a dict. @throws TemplateError on one that is no text, which Python has and JSON has not */
export function keyOf(value: Value): string {
  if (typeof value === 'string') return value;
  throw new TemplateError(
    `the keys of a dict must be texts here, not ${typeName(value)}; write {'1': ...} instead of {1: ...}`,
  );
}

/** The items that Python's `for` gets. */
export function itemsOf(value: Value): Value[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return Array.from(value);
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  throw new TemplateError(`${typeName(value)} has no items to go through`);
}

/** Python's `str`. */
export function toText(value: Value): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : repr(value);
}

/** Python's `repr`. */
function repr(value: Value): string {
  step();
  if (value === undefined) return 'Undefined';
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) {
    const texts = value.map(repr);
    spend(sumOf(texts, (text) => text.length + 2));
    const items = texts.join(', ');
    if (!(value instanceof Tuple)) return `[${items}]`;
    return value.length === 1 ? `(${items},)` : `(${items})`;
  }
  if (value instanceof Map) {
    const texts = [...value].map(([key, item]) => `${quoted(key)}: ${repr(item)}`);
    spend(sumOf(texts, (text) => text.length + 2));
    return `{${texts.join(', ')}}`;
  }
  return `<${typeName(value)}>`;
}

/** A float as Python writes it: the shortest digits, with an exponent below 1e-4 and from 1e16 on. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const [digits = '', exponent = ''] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power < -4 || power >= 16)
    return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
  if (Object.is(value, -0)) return '-0.0';
  return Number.isInteger(value) ? value.toFixed(1) : value.toString();
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' };

/** Characters that Python does not show. */
const hidden = /[\\\p{C}]|(?! )\p{Z}/gu;

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const shown = text.replace(hidden, (character) => {
    const code = character.codePointAt(0) ?? 0;
    const digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
    const letter = { 2: 'x', 4: 'u', 8: 'U' }[digits];
    return escapes[character] ?? `\\${letter}${code.toString(16).padStart(digits, '0')}`;
  });
  return quote + (quote === "'" ? shown.replaceAll("'", "\\'") : shown) + quote;
}
