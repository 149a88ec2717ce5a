import fc from 'fast-check';
import type { JsonSchema } from '../../support/json-schema.ts';

export interface ArbitraryOptions {
  /** Schemas for references, by name. */
  definitions: Record<string, JsonSchema>;
  /** Values for fields where the service requires more than the schema says, by path such as `messages[].content`. */
  overrides?: Record<string, fc.Arbitrary<unknown>>;
  /** An optional property is present once in this many times. */
  sparsity?: number;
}

/** Values that a schema allows, including `null` where allowed. Nesting is bounded. */
export function valuesOf(schema: JsonSchema, options: ArbitraryOptions): fc.Arbitrary<unknown> {
  return build(schema, '', 0, options);
}

const deepest = 14;
const text = fc.oneof(fc.string({ maxLength: 12 }), fc.string({ unit: 'grapheme', maxLength: 6 }));

function build(
  schema: JsonSchema,
  path: string,
  depth: number,
  options: ArbitraryOptions,
): fc.Arbitrary<unknown> {
  const given = options.overrides?.[path];
  if (given) return given;
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1) ?? '';
    const target = options.definitions[name];
    if (!target) throw new Error(`nothing is called ${schema.$ref}`);
    return build(target, path, depth + 1, options);
  }
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches) return oneOf(branches, path, depth, options);
  if (Array.isArray(schema.type))
    return oneOf(
      schema.type.map((type) => ({ ...schema, type })),
      path,
      depth,
      options,
    );
  return ofType(schema, path, depth, options);
}

function oneOf(branches: JsonSchema[], path: string, depth: number, options: ArbitraryOptions) {
  // A null that means absent should not be half of all values.
  return fc.oneof(
    ...branches.map((branch) => ({
      arbitrary: build(branch, path, depth, options),
      weight: branch.type === 'null' ? 1 : 6,
    })),
  );
}

function ofType(
  schema: JsonSchema,
  path: string,
  depth: number,
  options: ArbitraryOptions,
): fc.Arbitrary<unknown> {
  switch (schema.type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number':
      return numbers(schema);
    case 'string':
      return strings(schema);
    case 'array':
      return fc.array(
        depth < deepest ? build(schema.items ?? {}, `${path}[]`, depth + 1, options) : anything,
        {
          minLength: schema.minItems ?? 0,
          maxLength: Math.min(schema.maxItems ?? 3, (schema.minItems ?? 0) + 3),
        },
      );
    case 'object':
      return objects(schema, path, depth, options);
    default:
      return anything;
  }
}

const anything = fc.oneof(fc.constant(null), fc.boolean(), fc.integer({ min: -9, max: 9 }), text);

function numbers({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema) {
  // Ignore bounds that every safe integer satisfies.
  const low = Math.max(minimum ?? exclusiveMinimum ?? -1000, -1000);
  const high = Math.min(maximum ?? exclusiveMaximum ?? low + 2000, low + 2000);
  const range =
    type === 'integer'
      ? fc.integer({ min: Math.ceil(low), max: Math.floor(high) })
      : fc.double({ min: low, max: high, noNaN: true });
  const borders = [minimum, maximum].filter(
    (value) => value !== undefined && Number.isSafeInteger(value * 2),
  );
  const inside = range.filter((value) => value !== exclusiveMinimum && value !== exclusiveMaximum);
  return borders.length > 0
    ? fc.oneof({ arbitrary: inside, weight: 4 }, fc.constantFrom(...borders))
    : inside;
}

function strings({ format, pattern, minLength = 0, maxLength }: JsonSchema): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.uuid();
  if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern));
  return minLength === 0 && maxLength === undefined
    ? text
    : fc.string({ minLength, maxLength: Math.min(maxLength ?? 12, minLength + 12) });
}

function objects(
  { properties = {}, required = [], additionalProperties }: JsonSchema,
  path: string,
  depth: number,
  options: ArbitraryOptions,
): fc.Arbitrary<Record<string, unknown>> {
  const absent = Symbol('absent');
  const members = Object.entries(properties).map(([name, schema]) => {
    const value = build(schema, path === '' ? name : `${path}.${name}`, depth + 1, options);
    const always = required.includes(name);
    return fc
      .oneof(
        { arbitrary: value, weight: 1 },
        { arbitrary: fc.constant(absent), weight: always ? 0 : (options.sparsity ?? 3) },
      )
      .map((given): [string, unknown] => [name, given]);
  });
  const further =
    typeof additionalProperties === 'object' && depth < deepest
      ? fc.dictionary(
          fc.stringMatching(/^[a-z]{1,6}$/),
          build(additionalProperties, `${path}.*`, depth + 1, options),
          { maxKeys: 3 },
        )
      : fc.constant({});
  return fc.tuple(fc.tuple(...members), further).map(([entries, rest]) => ({
    ...rest,
    ...Object.fromEntries(entries.filter(([, value]) => value !== absent)),
  }));
}
