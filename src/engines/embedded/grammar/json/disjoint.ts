import { isRecord } from './keywords.ts';

/** No value fits two of the schemas, as far as their types and constants show. */
export function areDisjoint(schemas: readonly unknown[]): boolean {
  return schemas.every((schema, index) =>
    schemas.slice(index + 1).every((other) => tellApart(schema, other)),
  );
}

function tellApart(left: unknown, right: unknown): boolean {
  if (!isRecord(left) || !isRecord(right)) return false;
  const [leftTypes, rightTypes] = [typesOf(left), typesOf(right)];
  if (leftTypes && rightTypes && !leftTypes.some((type) => rightTypes.includes(type))) return true;
  const [leftValues, rightValues] = [valuesOf(left), valuesOf(right)];
  if (leftValues && rightValues) return !leftValues.some((value) => rightValues.includes(value));
  return requiredProperties(left).some(([name, schema]) =>
    requiredProperties(right).some(([otherName, other]) => name === otherName && tellApart(schema, other)),
  );
}

/** Integers count as numbers, since every integer is one. */
function typesOf(schema: Record<string, unknown>): string[] | null {
  const named = Array.isArray(schema.type) ? schema.type : [schema.type];
  const types = named.filter((type) => typeof type === 'string');
  if (types.length === 0) return null;
  return types.map((type) => (type === 'integer' ? 'number' : type));
}

function valuesOf(schema: Record<string, unknown>): string[] | null {
  const values = Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : null;
  return values?.map((value) => JSON.stringify(value)) ?? null;
}

function requiredProperties(schema: Record<string, unknown>): [string, unknown][] {
  const { properties, required } = schema;
  if (!isRecord(properties) || !Array.isArray(required)) return [];
  return Object.entries(properties).filter(([name]) => required.includes(name));
}
