import { z } from 'zod';
import * as contract from '../../contract/index.ts';

const reference = (id: string) => `#/components/schemas/${id}`;

/**
 * Larger size bounds are left out: tools that generate values from a schema create some of the maximum size,
 * and for texts of 16 million characters they need gigabytes.
 */
const maxStatedSize = 1024;

const sizeBounds: ReadonlySet<string> = new Set(['maxLength', 'maxItems', 'maxProperties']);

/** A reference if the contract names the schema, else the schema itself with references to named parts. */
export function schemaOf(schema: z.core.$ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  if (id !== undefined) return { $ref: reference(id) };
  const { $schema: _, $defs: __, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return inDocument(rest);
}

/**
 * All named schemas of the contract and their unnamed parts. `bodies`: the schemas of request bodies,
 * which refuse unknown fields (see `validateBody`).
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
    mapValues(schemas, ({ $schema: _, $id: __, ...schema }, id) => ({
      ...inDocument(schema),
      ...(closed.has(id) ? { additionalProperties: false } : {}),
    })),
  );
}

/** Rewrites references of a JSON Schema for the document, and leaves out large bounds. */
function inDocument(schema: object): Schema {
  const text = JSON.stringify(schema).replaceAll('#/$defs/', '#/components/schemas/');
  return JSON.parse(text, (name, value: unknown) =>
    sizeBounds.has(name) && typeof value === 'number' && value > maxStatedSize ? undefined : value,
  );
}

/** The JSON Schema keywords used here. */
interface Schema {
  [keyword: string]: unknown;
  type?: unknown;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
}

/**
 * Names every object and enumeration inside named schemas after its path, because client generators call
 * unnamed ones `Type1`. Equal parts share one name, except for maps with caller-chosen keys.
 */
function withNamedParts(schemas: Readonly<Record<string, Schema>>): Record<string, Schema> {
  const parts: Record<string, Schema> = {};
  const names = new Map<string, string>();

  /** The schema with its parts replaced by references; `name` is the schema's own name. */
  const inside = (schema: Schema, name: string): Schema => {
    const { properties, additionalProperties, items, anyOf, oneOf } = schema;
    return {
      ...schema,
      ...(properties && {
        properties: mapValues(properties, (value, key) => partOf(value, name + pascal(key))),
      }),
      ...(typeof additionalProperties === 'object' && {
        additionalProperties: partOf(additionalProperties, `${name}Value`),
      }),
      ...(items && { items: partOf(items, singular(name)) }),
      ...(anyOf && { anyOf: branchesOf(anyOf, name) }),
      ...(oneOf && { oneOf: branchesOf(oneOf, name) }),
    };
  };

  const branchesOf = (branches: Schema[], name: string): Schema[] => {
    const isShared = branches.filter(needsName).length > 1;
    return branches.map((branch) => {
      const own = isShared ? name + pascal(kindOf(branch) ?? '') : name;
      return partOf(branch, own in schemas ? `${own}Value` : own);
    });
  };

  const partOf = (schema: Schema, name: string): Schema => {
    const part = inside(schema, name);
    if (!needsName(part)) return part;
    const { description: _, ...content } = part;
    // Maps with caller-chosen keys often look alike without being related, so they are not shared.
    const key = part.properties || part.enum ? JSON.stringify(content) : name;
    const known = names.get(key);
    if (known === undefined && (name in schemas || name in parts))
      throw new TypeError(
        `two schemas of the document would be called ${name}; name one of them in the contract`,
      );
    if (known === undefined) {
      names.set(key, name);
      parts[name] = part;
    }
    return { $ref: reference(known ?? name) };
  };

  return { ...mapValues(schemas, inside), ...parts };
}

const mapValues = <Value, Result>(
  record: Readonly<Record<string, Value>>,
  convert: (value: Value, key: string) => Result,
): Record<string, Result> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, convert(value, key)]));

/** Whether generators create a type for the schema. */
function needsName({ $ref, type, properties, additionalProperties, enum: values }: Schema): boolean {
  if ($ref !== undefined) return false;
  if (values !== undefined) return values.length > 1;
  return type === 'object' && (properties !== undefined || additionalProperties !== undefined);
}

/** The discriminator value of a union's branch. */
function kindOf({ properties }: Schema): string | undefined {
  const kind = properties?.type?.const ?? properties?.role?.const;
  return typeof kind === 'string' ? kind : undefined;
}

const pascal = (name: string) =>
  name.replace(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());

const singular = (name: string) => (name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, ''));
