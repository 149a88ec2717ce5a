import { canonicalJson, isObject } from '../../../util/json.ts';
import { ALL_TYPES, isOfType } from './types.ts';

/** What distinguishes the values of a schema; null if the schema does not say. */
interface Marks {
  types: ReadonlySet<string> | null;
  values: ReadonlySet<string> | null;
  required: ReadonlyMap<string, Marks>;
}

/** Maximum schemas compared in pairs, if no single constant distinguishes all of them. */
const maxCompared = 300;

/** Whether no value fits two of the schemas, as far as their types and constants show. */
export function areDisjoint(schemas: readonly unknown[]): boolean {
  const marks = schemas.map(marksOf);
  if (areDistinctByOne(marks)) return true;
  return (
    marks.length <= maxCompared &&
    marks.every((left, index) => marks.slice(index + 1).every((right) => areDistinct(left, right)))
  );
}

/** Whether one thing distinguishes all of them: their constants, or those of one property that all require. */
function areDistinctByOne(schemas: readonly (Marks | null | undefined)[]): boolean {
  const marks = schemas.filter((one) => one !== null && one !== undefined);
  if (marks.length < schemas.length) return false;
  const values = marks.flatMap((one) => (one.values ? [one.values] : []));
  if (values.length === marks.length) {
    const count = values.reduce((sum, { size }) => sum + size, 0);
    return new Set(values.flatMap((one) => [...one])).size === count;
  }
  return [...(marks[0]?.required.keys() ?? [])].some((name) =>
    areDistinctByOne(marks.map(({ required }) => required.get(name))),
  );
}

function areDistinct(left: Marks | null, right: Marks | null): boolean {
  if (!left || !right) return false;
  if (left.types && right.types && !meet(left.types, right.types)) return true;
  if (left.values && right.values) return !meet(left.values, right.values);
  return [...left.required].some(([name, marks]) => areDistinct(marks, right.required.get(name) ?? null));
}

const meet = (left: ReadonlySet<string>, right: ReadonlySet<string>): boolean =>
  [...left].some((value) => right.has(value));

function marksOf(schema: unknown): Marks | null {
  if (!isObject(schema)) return null;
  const { properties, required } = schema;
  const names = new Set(Array.isArray(required) ? required : []);
  const members = isObject(properties) ? Object.entries(properties) : [];
  return {
    types: typesOf(schema) ?? typesOfValues(valuesIn(schema)),
    values: valuesOf(schema),
    required: new Map(
      members.flatMap(([name, member]) => {
        const marks = names.has(name) ? marksOf(member) : null;
        return marks ? [[name, marks] as const] : [];
      }),
    ),
  };
}

/** Integers count as numbers, since every integer is one. */
function typesOf(schema: Record<string, unknown>): Set<string> | null {
  const named = Array.isArray(schema.type) ? schema.type : [schema.type];
  const types = named.filter((type) => typeof type === 'string');
  if (types.length === 0) return null;
  return new Set(types.map((type) => (type === 'integer' ? 'number' : type)));
}

const valuesIn = (schema: Record<string, unknown>): unknown[] | null =>
  Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : null;

const typesOfValues = (values: unknown[] | null): Set<string> | null =>
  values && new Set(values.map((value) => ALL_TYPES.find((type) => isOfType(value, type)) ?? ''));

function valuesOf(schema: Record<string, unknown>): Set<string> | null {
  const values = valuesIn(schema);
  return values && new Set(values.map((value) => canonicalJson(value)));
}
