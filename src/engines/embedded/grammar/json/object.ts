import { choice, type Expression, literal, optional, sequence } from '../expression.ts';
import { anyKey, anyObject, objectOf } from './any-value.ts';
import { isRecord, type SchemaReader } from './keywords.ts';
import type { SchemaScope } from './schema.ts';

interface Member {
  text: Expression;
  required: boolean;
}

/** Objects with the properties a schema names, in its order; of any members where it names none. */
export function objectWith(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const { properties = {}, additionalProperties: additional } = reader.keywords;
  if (!isRecord(properties)) reader.refuse('properties', 'must be an object of schemas');
  else {
    const required = (reader.list('required') ?? []).map(String);
    for (const name of required)
      if (!Object.hasOwn(properties, name))
        reader.refuse('required', `has "${name}", which properties has not`);
    if (Object.keys(properties).length === 0) return openObject(reader, scope, place);
    if (isRecord(additional) && Object.keys(additional).length > 0)
      reader.refuse('additionalProperties', 'is a schema beside properties: name the properties');
    if (reader.has('propertyNames')) reader.refuse('propertyNames', 'stands beside properties');
    const members = Object.entries(properties).map(([name, schema]): Member => {
      const value = scope.compile(schema, `${place}/properties/${name}`);
      return {
        text: sequence(literal(`${JSON.stringify(name)}:`), value),
        required: required.includes(name),
      };
    });
    return sequence(literal('{'), firstMembers(members, scope, place), literal('}'));
  }
  return anyObject;
}

/** An object whose keys are free: a record, or `{}` where nothing but properties may be and there are none. */
function openObject(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const {
    properties,
    additionalProperties: additional,
    unevaluatedProperties: unevaluated,
  } = reader.keywords;
  const closed =
    additional === false || unevaluated === false || (additional === undefined && properties !== undefined);
  if (closed) return literal('{}');
  if (isRecord(unevaluated))
    reader.refuse('unevaluatedProperties', 'is a schema: write additionalProperties');
  const names = reader.keywords.propertyNames;
  const key = names === undefined ? anyKey : keysOf(names, reader, scope, place);
  const value = scope.compile(additional ?? true, `${place}/additionalProperties`);
  return objectOf(
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
function firstMembers(members: readonly Member[], scope: SchemaScope, place: string): Expression {
  let following: Expression = literal('');
  let first: Expression = literal('');
  for (const [index, { text, required }] of [...members.entries()].reverse()) {
    const starting = sequence(text, following);
    first = required ? starting : choice(starting, first);
    const withComma = sequence(literal(','), text);
    following = scope.share(
      `${place} after property ${index}`,
      sequence(required ? withComma : optional(withComma), following),
    );
  }
  return first;
}
