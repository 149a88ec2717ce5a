import { canonicalJson, isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { ALL_TYPES, constantsIn, isOfType, typesNamedIn } from './types.ts';

/** What distinguishes the values of a schema; null if the schema does not say. */
interface Marks {
  types: ReadonlySet<string> | null;
  values: ReadonlySet<string> | null;
  required: ReadonlyMap<string, Marks>;
}

/** Maximum schemas compared in pairs, if no single constant distinguishes all of them. */
const maxCompared = 300;

/**
 * Whether no value of these types fits two of the schemas, as far as their types and constants show. `types`: null for
 * all types.
 */
export function areDisjoint(schemas: readonly unknown[], types: readonly string[] | null): boolean {
  const marks = schemas.map(marksOf);
  if (areDistinctByOne(marks, types)) return true;
  return (
    marks.length <= maxCompared &&
    marks.every((left, index) => marks.slice(index + 1).every((right) => areDistinct(left, right, types)))
  );
}

/** Whether one thing distinguishes all of them: their constants, or the constants of a property that all require. */
function areDistinctByOne(
  schemas: readonly (Marks | null | undefined)[],
  types: readonly string[] | null,
): boolean {
  const marks = schemas.filter((one) => one !== null && one !== undefined);
  if (marks.length < schemas.length) return false;
  const values = marks.flatMap((one) => (one.values ? [one.values] : []));
  if (values.length === marks.length) {
    const count = values.reduce((sum, { size }) => sum + size, 0);
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
    [...left.required].some(([name, marks]) => areDistinct(marks, right.required.get(name) ?? null, null))
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
  const names = new Set(Array.isArray(required) ? required : []);
  const members = isObject(properties) ? Object.entries(properties) : [];
  return {
    types: typesOf(schema),
    values: valuesOf(schema),
    required: new Map(
      members.flatMap(([name, member]) => {
        const marks = names.has(name) ? marksOf(member) : null;
        return marks ? [[name, marks] as const] : [];
      }),
    ),
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
