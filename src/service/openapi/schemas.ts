import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { type Schema, withNamedParts } from './named-parts.ts';

const reference = (id: string) => `#/components/schemas/${id}`;

/**
 * Bounds of size above this stand under an `x-` name: tools that make values of a schema make some as large as it
 * allows, and of texts of 16 million characters they need gigabytes.
 */
const largestStatedSize = 1024;

const sizeBounds: ReadonlySet<string> = new Set(['maxLength', 'maxItems', 'maxProperties']);

/** A reference where the contract names the schema, else the schema itself, in which named ones are references. */
export function schemaOf(schema: z.core.$ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  if (id !== undefined) return { $ref: reference(id) };
  const { $schema: _, $defs: __, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return inDocument(rest);
}

/**
 * Every schema that the contract names, and the parts of them that it does not. `bodies` are those of requests, whose
 * unknown fields are refused: see `validateBody`.
 */
export function componentSchemas(bodies: readonly z.core.$ZodType[]): Record<string, Schema> {
  const closed = new Set(bodies.map((schema) => z.globalRegistry.get(schema)?.id));
  const named = z.registry<{ id: string }>();
  for (const schema of Object.values(contract))
    if (schema instanceof z.ZodType) {
      const id = z.globalRegistry.get(schema)?.id;
      if (id !== undefined) named.add(schema, { id });
    }
  const { __shared: others, ...schemas } = z.toJSONSchema(named, { io: 'input', uri: reference }).schemas;
  if (others)
    throw new TypeError(
      `contract/index.ts does not export the schemas ${Object.keys(others.$defs ?? {}).join(', ')}`,
    );
  return withNamedParts(
    Object.fromEntries(
      Object.entries(schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [
        id,
        { ...inDocument(schema), ...(closed.has(id) ? { additionalProperties: false } : {}) },
      ]),
    ),
  );
}

/** A JSON Schema as it stands in the document. */
function inDocument(schema: object): Schema {
  const text = JSON.stringify(schema).replaceAll('#/$defs/', '#/components/schemas/');
  return JSON.parse(text, (_, value: unknown) => (isSchema(value) ? withoutLargeBounds(value) : value));
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function withoutLargeBounds(schema: Schema): Schema {
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => {
      const isLarge = sizeBounds.has(name) && typeof value === 'number' && value > largestStatedSize;
      return [isLarge ? `x-${name}` : name, value];
    }),
  );
}
