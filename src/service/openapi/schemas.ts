import { z } from 'zod';
import * as contract from '../../contract/index.ts';

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

/** JSON Schema, as far as it is looked at here. */
export interface Schema {
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
 * Gives each object and enumeration within named schemas a name too, made of the names that lead to it: generators of
 * clients call what has none `Type1` and the like. Parts that are equal have one name, but for objects of names that the caller chooses.
 */
export function withNamedParts(schemas: Readonly<Record<string, Schema>>): Record<string, Schema> {
  const parts = new NamedParts(schemas);
  const named = Object.entries(schemas).map(([name, schema]): [string, Schema] => [
    name,
    parts.inside(schema, name),
  ]);
  return Object.fromEntries([...named, ...parts.all]);
}

class NamedParts {
  readonly all = new Map<string, Schema>();
  readonly #given: Readonly<Record<string, Schema>>;
  readonly #names = new Map<string, string>();

  constructor(given: Readonly<Record<string, Schema>>) {
    this.#given = given;
  }

  /** A schema whose parts have names; `name` is its own. */
  inside(schema: Schema, name: string): Schema {
    const { properties, additionalProperties, items, anyOf, oneOf } = schema;
    return {
      ...schema,
      ...(properties && {
        properties: Object.fromEntries(
          Object.entries(properties).map(([key, value]) => [key, this.#part(value, name + pascal(key))]),
        ),
      }),
      ...(typeof additionalProperties === 'object' && {
        additionalProperties: this.#part(additionalProperties, `${name}Value`),
      }),
      ...(items && { items: this.#part(items, singular(name)) }),
      ...(anyOf && { anyOf: this.#branches(anyOf, name) }),
      ...(oneOf && { oneOf: this.#branches(oneOf, name) }),
    };
  }

  #branches(branches: Schema[], name: string): Schema[] {
    const nameless = branches.filter(needsName);
    return branches.map((branch) => {
      const place = nameless.length > 1 ? name + pascal(kindOf(branch) ?? '') : name;
      return this.#part(branch, place in this.#given ? `${place}Value` : place);
    });
  }

  #part(schema: Schema, name: string): Schema {
    const part = this.inside(schema, name);
    return needsName(part) ? { $ref: reference(this.#nameFor(part, name)) } : part;
  }

  #nameFor(part: Schema, name: string): string {
    const { description: _, ...content } = part;
    // Objects of the caller's own names are alike in many places that have nothing to do with each other.
    const key = part.properties || part.enum ? JSON.stringify(content) : name;
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    if (name in this.#given || this.all.has(name))
      throw new TypeError(
        `two schemas of the document would be called ${name}; name one of them in the contract`,
      );
    this.#names.set(key, name);
    this.all.set(name, part);
    return name;
  }
}

/** Whether generators make a type of it. */
function needsName({ $ref, type, properties, additionalProperties, enum: values }: Schema): boolean {
  if ($ref !== undefined) return false;
  if (values !== undefined) return values.length > 1;
  return type === 'object' && (properties !== undefined || additionalProperties !== undefined);
}

/** What a branch of a union says that it is. */
function kindOf({ properties }: Schema): string | undefined {
  const kind = properties?.type?.const ?? properties?.role?.const;
  return typeof kind === 'string' ? kind : undefined;
}

const pascal = (name: string) =>
  name.replace(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());

const singular = (name: string) => (name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, ''));
