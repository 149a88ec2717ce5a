import fc from 'fast-check';
import type { JsonSchema } from '../../support/json-schema.ts';

type Body = Record<string, unknown>;

export interface Mutation {
  /** What is wrong with the body, for the report of a test. */
  what: string;
  body: unknown;
}

/** Bodies that a schema forbids: a valid one with one error, or a different value altogether. */
export function mutationsOf(
  schema: JsonSchema,
  definitions: Record<string, JsonSchema>,
  valid: fc.Arbitrary<Body>,
): fc.Arbitrary<Mutation> {
  const resolve = (given: JsonSchema): JsonSchema =>
    given.$ref === undefined ? given : resolve(definitions[given.$ref.split('/').at(-1) ?? ''] ?? {});
  const { properties = {}, required = [] } = resolve(schema);
  const names = Object.keys(properties);
  const change = (what: string, name: string, value: unknown) => (body: Body) => ({
    what: `${name} ${what}`,
    body: { ...body, [name]: value },
  });
  const wrong = names.flatMap((name) =>
    wrongValues(properties[name] ?? {}, resolve).map((value) => ({ name, value })),
  );
  const changes: fc.Arbitrary<(body: Body) => Mutation>[] = [
    fc.constantFrom(...wrong).map(({ name, value }) => change(`is ${JSON.stringify(value)}`, name, value)),
    fc.stringMatching(/^x_[a-z]{1,8}$/).map((name) => change('is no field', name, 1)),
    fc
      .constantFrom(null, 5, 'text', true, [], [{}])
      .map((body) => () => ({ what: 'the body is no object', body })),
  ];
  if (required.length > 0)
    changes.push(
      fc.constantFrom(...required).map((name) => (body) => {
        const { [name]: _, ...rest } = body;
        return { what: `${name} is missing`, body: rest };
      }),
    );
  return fc.tuple(valid, fc.oneof(...changes)).map(([body, apply]) => apply(body));
}

/** One value of each kind, to choose a value of a forbidden kind. */
const samples: [kind: string, value: unknown][] = [
  ['string', 'seven'],
  ['number', 7.5],
  ['boolean', true],
  ['array', [[[]]]],
  ['object', { unexpected: { nested: [] } }],
];

/** Values of types that the schema forbids, and numbers out of its range. */
function wrongValues(schema: JsonSchema, resolve: (schema: JsonSchema) => JsonSchema): unknown[] {
  const branches = leaves(schema, resolve);
  const kinds = new Set(branches.flatMap(({ type, enum: values }) => kindsOf(type, values)));
  if (kinds.size === 0) return [];
  const wrong = samples.filter(([kind]) => !kinds.has(kind)).map(([, value]) => value);
  const numeric = branches.filter(({ type }) => type === 'number' || type === 'integer');
  const onlyNumbers = branches.every(
    ({ type }) => type === 'number' || type === 'integer' || type === 'null',
  );
  for (const { type, minimum, maximum, exclusiveMinimum } of onlyNumbers ? numeric : []) {
    if (type === 'integer') wrong.push(1.5);
    if (minimum !== undefined && minimum > -1e15) wrong.push(minimum - 1);
    if (maximum !== undefined && maximum < 1e15) wrong.push(maximum + 1);
    if (exclusiveMinimum !== undefined) wrong.push(exclusiveMinimum);
  }
  return wrong;
}

function leaves(schema: JsonSchema, resolve: (schema: JsonSchema) => JsonSchema): JsonSchema[] {
  const resolved = resolve(schema);
  const branches = resolved.anyOf ?? resolved.oneOf;
  return branches ? branches.flatMap((branch) => leaves(branch, resolve)) : [resolved];
}

function kindsOf(type: JsonSchema['type'], values: unknown[] | undefined): string[] {
  if (values) return values.map((value) => typeof value);
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  return types.map((one) => (one === 'integer' ? 'number' : one));
}
