import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { References } from './references.ts';
import { ALL_TYPES, constantsIn, isOfType, namedTypes } from './types.ts';

/**
 * The types that an argument of a tool may have, as its parameters name them: of `type`, `enum` and `const`, also behind
 * references and within combinations. All types where they name none. Integers count as numbers.
 */
export function argumentTypes(parameters: JsonSchema, name: string): ReadonlySet<string> {
  const references = new References(parameters);
  const found = propertiesIn(parameters, name, references, new Set());
  return new Set(
    ALL_TYPES.filter((type) => found.every((one) => typesIn(one, references, new Set()).has(type))),
  );
}

/** The schemas of a property: of `properties`, else of `additionalProperties`; those of alternatives together. */
function propertiesIn(schema: unknown, name: string, references: References, seen: Set<unknown>): unknown[] {
  if (!isObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const { properties, additionalProperties: further, allOf, anyOf, oneOf } = schema;
  const own = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : further;
  const within = (inner: unknown) => propertiesIn(inner, name, references, seen);
  const alternatives = [anyOf, oneOf].flatMap((list) => {
    const schemas = Array.isArray(list) ? list.flatMap(within) : [];
    return schemas.length > 0 ? [{ anyOf: schemas }] : [];
  });
  return [
    ...(own === undefined ? [] : [own]),
    ...(Array.isArray(allOf) ? allOf.flatMap(within) : []),
    ...alternatives,
    ...(schema.$ref === undefined ? [] : within(references.targetOf(schema))),
  ];
}

function typesIn(schema: unknown, references: References, seen: Set<unknown>): ReadonlySet<string> {
  let types = new Set(ALL_TYPES);
  if (!isObject(schema) || seen.has(schema)) return types;
  const inside = new Set([...seen, schema]);
  const meet = (others: ReadonlySet<string>) => {
    types = new Set([...types].filter((type) => others.has(type)));
  };
  const named = namedTypes(schema);
  if (named) meet(new Set(named.map((type) => (type === 'integer' ? 'number' : type))));
  const constants = constantsIn(schema);
  if (constants) meet(new Set(ALL_TYPES.filter((type) => constants.some((value) => isOfType(value, type)))));
  const { allOf, anyOf, oneOf, $ref } = schema;
  for (const one of Array.isArray(allOf) ? allOf : []) meet(typesIn(one, references, inside));
  for (const list of [anyOf, oneOf])
    if (Array.isArray(list)) meet(new Set(list.flatMap((one) => [...typesIn(one, references, inside)])));
  if ($ref !== undefined) meet(typesIn(references.targetOf(schema), references, inside));
  return types;
}
