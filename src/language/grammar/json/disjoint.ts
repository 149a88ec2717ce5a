import { canonicalJson, isObject } from '../../../util/json.ts';
import { sumOf } from '../../../util/sums.ts';
import type { JsonSchema } from '../constraint.ts';
import { ALL_TYPES, constantsIn, isOfType, typesNamedIn } from './types.ts';

/** What distinguishes the values of a schema; null if the schema does not say. */
interface Marks {
  types: ReadonlySet<string> | null;
  values: ReadonlySet<string> | null;
  /** What distinguishes the properties that every object has; null if their schemas do not say. */
  required: ReadonlyMap<string, Marks | null>;
  /** Whether no object has a property of this name. */
  forbids: (name: string) => boolean;
}

/** Maximum schemas compared in pairs, if no single constant distinguishes all of them. */
const maxCompared = 300;

/**
 * For each schema the others that a value of these types may fit too, by their numbers, as far as types, constants, and
 * properties that objects must and must not have show. `types`: null for all types.
 */
export function overlapsOf(schemas: readonly unknown[], types: readonly string[] | null): number[][] {
  const marks = schemas.map(marksOf);
  if (areDistinctByOne(marks, types)) return schemas.map(() => []);
  const isCompared = marks.length <= maxCompared;
  return marks.map((left, index) =>
    [...marks.keys()].filter(
      (other) => other !== index && !(isCompared && areDistinct(left, marks[other] ?? null, types)),
    ),
  );
}

/** Whether no value of these types fits two of the schemas. */
export const areDisjoint = (schemas: readonly unknown[], types: readonly string[] | null): boolean =>
  overlapsOf(schemas, types).every(({ length }) => length === 0);

/** Whether one thing distinguishes all of them: their constants, or the constants of a property that all require. */
function areDistinctByOne(
  schemas: readonly (Marks | null | undefined)[],
  types: readonly string[] | null,
): boolean {
  const marks = schemas.filter((one) => one !== null && one !== undefined);
  if (marks.length < schemas.length) return false;
  const values = marks.flatMap((one) => (one.values ? [one.values] : []));
  if (values.length === marks.length) {
    const count = sumOf(values, ({ size }) => size);
    return new Set(values.flatMap((one) => [...one])).size === count;
  }
  return (
    meetInObjects(marks, types) &&
    [...(marks[0]?.required.keys() ?? [])].some((name) =>
      areDistinctByOne(
        marks.map(({ required }) => required.get(name)),
        null,
      ),
    )
  );
}

function areDistinct(left: Marks | null, right: Marks | null, types: readonly string[] | null): boolean {
  if (!left || !right) return false;
  if (left.types && right.types && !meet(left.types, right.types)) return true;
  if (left.values && right.values) return !meet(left.values, right.values);
  return (
    meetInObjects([left, right], types) &&
    ([...left.required].some(
      ([name, marks]) => right.forbids(name) || areDistinct(marks, right.required.get(name) ?? null, null),
    ) ||
      [...right.required.keys()].some(left.forbids))
  );
}

/** Whether only objects fit two of them by type: required properties say nothing about other values. */
const meetInObjects = (marks: readonly Marks[], among: readonly string[] | null): boolean =>
  (among ?? ALL_TYPES).every(
    (type) => type === 'object' || marks.filter(({ types }) => types?.has(type) ?? true).length <= 1,
  );

const meet = (left: ReadonlySet<string>, right: ReadonlySet<string>): boolean =>
  [...left].some((value) => right.has(value));

function marksOf(schema: unknown): Marks | null {
  if (!isObject(schema)) return null;
  const { properties, required } = schema;
  const names = (Array.isArray(required) ? required : []).filter((name) => typeof name === 'string');
  const members = new Map(isObject(properties) ? Object.entries(properties) : []);
  const isClosed = schema.additionalProperties === false && schema.patternProperties === undefined;
  return {
    types: typesOf(schema),
    values: valuesOf(schema),
    required: new Map(names.map((name) => [name, marksOf(members.get(name))])),
    forbids: (name) => isClosed && !members.has(name),
  };
}

function typesOf(schema: JsonSchema): Set<string> | null {
  const types = typesNamedIn([schema])?.filter((type) => ALL_TYPES.includes(type));
  if (types && types.length > 0) return new Set(types);
  const values = constantsIn(schema);
  return values && new Set(values.map((value) => ALL_TYPES.find((type) => isOfType(value, type)) ?? ''));
}

function valuesOf(schema: JsonSchema): Set<string> | null {
  const values = constantsIn(schema);
  return values && new Set(values.map((value) => canonicalJson(value)));
}
