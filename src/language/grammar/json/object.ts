import { choiceOf, type Expression, literal, optional, repeat, sequence } from '../expression.ts';
import { isRecord, type SchemaReader } from './keywords.ts';
import { keyOtherThan } from './other-key.ts';
import type { SchemaScope } from './schema.ts';

interface Member {
  text: Expression;
  required: boolean;
}

/** Objects with the properties a schema names, in its order, then further ones; of any members where it names none. */
export function objectWith(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const { properties = {} } = reader.keywords;
  if (!isRecord(properties)) return reader.refuse('properties', 'must be an object of schemas');
  const required = new Set((reader.list('required') ?? []).map(String));
  for (const name of required)
    if (!Object.hasOwn(properties, name))
      reader.refuse('required', `has "${name}", which properties has not`);
  const names = Object.keys(properties);
  if (names.length === 0) return openObject(reader, scope, place);
  if (reader.has('propertyNames')) reader.refuse('propertyNames', 'stands beside properties');
  const { layout } = scope;
  const members = Object.entries(properties).map(([name, schema]): Member => {
    const value = scope.compile(schema, `${place}/properties/${pointerStep(name)}`);
    return { text: sequence(layout.name(name), layout.spaced(value)), required: required.has(name) };
  });
  const additional = furtherValues(reader, scope.layout.closed);
  const further = additional === null ? null : furtherMember(names, additional, scope, place);
  return sequence(layout.mark('{'), firstMembers(members, further, scope, place), literal('}'));
}

/** The schema of properties that are not named, or null where there are to be none. */
function furtherValues(reader: SchemaReader, closed: boolean): unknown {
  const { additionalProperties, unevaluatedProperties } = reader.keywords;
  if (additionalProperties === false || unevaluatedProperties === false) return null;
  return additionalProperties ?? (closed ? null : (unevaluatedProperties ?? true));
}

function furtherMember(
  names: readonly string[],
  additional: unknown,
  scope: SchemaScope,
  place: string,
): Expression {
  const at = `${place}/additionalProperties`;
  const key = keyOtherThan(names, scope, at);
  return scope.share(`${at} member`, scope.layout.member(key, scope.compile(additional, at)));
}

/** An object whose keys are free: a record, or `{}` where nothing but properties may be and there are none. */
function openObject(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const {
    properties,
    additionalProperties: additional,
    unevaluatedProperties: unevaluated,
  } = reader.keywords;
  const silentlyClosed = scope.layout.closed && additional === undefined && properties !== undefined;
  if (additional === false || unevaluated === false || silentlyClosed)
    return sequence(scope.layout.mark('{'), literal('}'));
  if (isRecord(unevaluated))
    reader.refuse('unevaluatedProperties', 'is a schema: write additionalProperties');
  const names = reader.keywords.propertyNames;
  const key = names === undefined ? scope.layout.anyKey : keysOf(names, reader, scope, place);
  const value = scope.compile(additional ?? true, `${place}/additionalProperties`);
  return scope.layout.objectOf(
    scope.share(`${place}/propertyNames`, key),
    scope.share(`${place}/additionalProperties`, value),
  );
}

function keysOf(names: unknown, reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const areStrings =
    isRecord(names) && (names.type === 'string' || (Array.isArray(names.enum) && names.type === undefined));
  if (!areStrings) reader.refuse('propertyNames', 'must be a schema of strings');
  return scope.compile(names, `${place}/propertyNames`);
}

/** Members while none is written yet, so that the next one has no comma before it. */
function firstMembers(
  members: readonly Member[],
  further: Expression | null,
  scope: SchemaScope,
  place: string,
): Expression {
  const comma = scope.layout.mark(',');
  let following: Expression = further ? repeat(sequence(comma, further), 0, null) : literal('');
  let first: Expression[] = [further ? optional(sequence(further, following)) : literal('')];
  for (const [index, { text, required }] of [...members.entries()].reverse()) {
    const starting = sequence(text, following);
    if (required) first = [starting];
    else first.push(starting);
    const withComma = sequence(comma, text);
    following = scope.share(
      `${place} after property ${index}`,
      sequence(required ? withComma : optional(withComma), following),
    );
  }
  return choiceOf(first);
}

/** A name as a step of a JSON pointer (RFC 6901), so that no two places have one name. */
const pointerStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');
