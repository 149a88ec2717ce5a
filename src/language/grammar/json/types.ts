import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import type { Conjunction } from './conjunction.ts';
import { PATTERN_OF_FORMAT, RANGE_OF_FORMAT } from './formats.ts';
import { KEYWORDS_OF_TYPE } from './keywords.ts';

export const ALL_TYPES = ['string', 'number', 'boolean', 'null', 'object', 'array'];

export function isOfType(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

/** The types that a schema names; null if it names none. */
export function namedTypes({ type }: JsonSchema): string[] | null {
  if (type === undefined) return null;
  const types = [type].flat();
  const known = types.filter((one) => typeof one === 'string' && [...ALL_TYPES, 'integer'].includes(one));
  return known.length === types.length && known.length > 0 ? known.map(String) : [];
}

/** The types that schemas name, as far as they meet; null if none names types. Integers count as numbers. */
export function typesNamedIn(schemas: readonly JsonSchema[]): string[] | null {
  let types: string[] | null = null;
  for (const schema of schemas) {
    const named = namedTypes(schema)?.map((type) => (type === 'integer' ? 'number' : type));
    if (named) types = types ? meet(types, named) : withoutRepeats(named);
  }
  return types;
}

/** The constants of a schema: of `enum`, or the one of `const`. Null if it has none. */
export const constantsIn = ({ enum: values, const: value }: JsonSchema): unknown[] | null =>
  Array.isArray(values) ? values : value === undefined ? null : [value];

/**
 * The types that values of all schemas may have. If no schema names types, those that their keywords are about; null if
 * none is about a type.
 */
export function typesOf(all: Conjunction): string[] | null {
  let types: string[] | null = null;
  for (const { schema } of all.parts) {
    const named = namedTypes(schema);
    const only = typeOfExcluded(schema.not);
    if (only) types = types ? meet(types, [only]) : [only];
    if (!named) continue;
    if (named.length === 0) all.refuse('type', 'is not a JSON type');
    types = types ? meet(types, named) : withoutRepeats(named);
  }
  return types ?? impliedTypes(all);
}

/** The type of the values that do not match these schemas: all others match. */
function typeOfExcluded(not: unknown): string | null {
  if (!isObject(not)) return null;
  if (not.required !== undefined) return 'object';
  return not.pattern === undefined ? null : 'string';
}

/** Every integer is a number. */
function withoutRepeats(types: readonly string[]): string[] {
  const kept = types.includes('number') ? types.filter((type) => type !== 'integer') : types;
  return [...new Set(kept)];
}

function meet(left: readonly string[], right: readonly string[]): string[] {
  const types = left.flatMap((type) => {
    if (right.includes(type)) return [type];
    if (type === 'integer' && right.includes('number')) return [type];
    return type === 'number' && right.includes('integer') ? ['integer'] : [];
  });
  return withoutRepeats(types);
}

function impliedTypes(all: Conjunction): string[] | null {
  const implied = ['string', 'number', 'array', 'object'].filter((type) =>
    KEYWORDS_OF_TYPE[type]?.some((keyword) => all.has(keyword)),
  );
  for (const format of all.strings('format')) {
    if (PATTERN_OF_FORMAT.has(format)) implied.push('string');
    if (RANGE_OF_FORMAT.has(format)) implied.push('number');
  }
  return implied.length === 0 ? null : [...new Set(implied)];
}
