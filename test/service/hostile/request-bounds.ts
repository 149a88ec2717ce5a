import { z } from 'zod';
import { type Operation, operations } from '../../../src/service/openapi/operations.ts';
import type { JsonSchema } from '../../support/json-schema.ts';

/** Path of a value: field names, 0 for an element of a list, `key` for an entry, `|2` for a branch of a union. */
export type Way = (string | number)[];

/** A path in a request at which a value is allowed. */
export interface Place {
  /** For example `post /v1/preview/models`. */
  operation: string;
  schema: z.ZodType;
  root: JsonSchema;
  way: Way;
  node: JsonSchema;
}

/** Name of an entry that the caller chooses. A number, so that it can also be a token id. */
export const entryName = '7';

/** All paths in the bodies and queries of all requests. */
export function placesOfRequests(): Place[] {
  const all: Operation[] = Object.values(operations);
  return all.flatMap((operation) => {
    const schemas = [operation.body?.schema, operation.query].filter((schema) => schema !== undefined);
    return schemas.flatMap((schema) => {
      const root: JsonSchema = z.toJSONSchema(schema, { io: 'input' }) as JsonSchema;
      const name = `${operation.method} ${operation.path}`;
      return [...placesIn(root, root, [])].map(({ node, way }) => ({
        ...{ operation: name, schema, root, node, way },
      }));
    });
  });
}

export function resolve(node: JsonSchema, root: JsonSchema): JsonSchema {
  const name = node.$ref?.split('/').at(-1);
  return name === undefined ? node : resolve(root.$defs?.[name] ?? {}, root);
}

function* placesIn(
  schema: JsonSchema,
  root: JsonSchema,
  way: Way,
): Generator<{ node: JsonSchema; way: Way }> {
  const node = resolve(schema, root);
  yield { node, way };
  for (const [index, branch] of (node.anyOf ?? node.oneOf ?? []).entries())
    yield* placesIn(branch, root, [...way, `|${index}`]);
  for (const [name, inner] of Object.entries(node.properties ?? {}))
    yield* placesIn(inner, root, [...way, name]);
  if (node.items) yield* placesIn(node.items, root, [...way, 0]);
  if (typeof node.additionalProperties === 'object')
    yield* placesIn(node.additionalProperties, root, [...way, entryName]);
}

/** The smallest value that a schema allows, with `value` at a path. */
export function instanceWith(schema: JsonSchema, root: JsonSchema, way: Way, value: unknown): unknown {
  const node = resolve(schema, root);
  const [step, ...rest] = way;
  if (step === undefined) return value;
  if (typeof step === 'string' && step.startsWith('|')) {
    const branch = (node.anyOf ?? node.oneOf ?? [])[Number(step.slice(1))];
    return instanceWith(branch ?? {}, root, rest, value);
  }
  if (step === 0) return [instanceWith(node.items ?? {}, root, rest, value)];
  const inner = node.properties?.[step] ?? node.additionalProperties;
  const least = leastOf(node, root);
  return {
    ...(typeof least === 'object' ? least : {}),
    [step]: instanceWith(typeof inner === 'object' ? inner : {}, root, rest, value),
  };
}

/** The types of values, without the `null` that means absent. */
export const typesOf = ({ type }: JsonSchema): string[] =>
  (Array.isArray(type) ? type : type === undefined ? [] : [type]).filter((name) => name !== 'null');

/** The smallest value that a schema allows. */
export function leastOf(schema: JsonSchema, root: JsonSchema): unknown {
  const node = resolve(schema, root);
  if (node.const !== undefined) return node.const;
  if (node.enum) return node.enum[0];
  const [branch] = node.anyOf ?? node.oneOf ?? [];
  if (branch) return leastOf(branch, root);
  switch (typesOf(node)[0]) {
    case 'string':
      if (node.format === 'uuid') return '00000000-0000-4000-8000-000000000000';
      if (node.format === 'date-time') return '2026-01-01T00:00:00Z';
      return 'a'.repeat(Math.max(1, node.minLength ?? 1));
    case 'integer':
    case 'number':
      return Math.max(node.minimum ?? 0, node.exclusiveMinimum === undefined ? 0 : 1);
    case 'boolean':
      return true;
    case 'array':
      return Array.from({ length: node.minItems ?? 0 }, () => leastOf(node.items ?? {}, root));
    case 'object':
      return Object.fromEntries(
        (node.required ?? []).map((name) => [name, leastOf(node.properties?.[name] ?? {}, root)]),
      );
    default:
      return node.type === 'null' ? null : {};
  }
}
