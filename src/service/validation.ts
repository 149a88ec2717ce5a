import type { z } from 'zod';
import type { ValidationIssue } from '../contract/index.ts';
import { isLarger, isObject, type JsonObject } from '../util/json.ts';
import { maxIssues, RequestValidationError, unsupportedField } from './errors.ts';
import { flatten, toValidationIssues, valueAt } from './zod-issues.ts';

/** How often unknown null fields are removed and the value validated again. */
const maxRounds = 16;
/** How many unknown null fields are removed in one round. */
const maxNames = 64;

/** Validates a value. Invalid values throw a 422 whose `loc` begins with `location`. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  location: 'body' | 'query' | 'path',
): z.output<Schema> {
  const result = parse(schema, value);
  if (result.success) return result.data;
  throw new RequestValidationError(toValidationIssues(result.error.issues, value, [location]));
}

/** Like `safeParse`, but an unknown field with the value null counts as absent. */
function parse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  round = 0,
): z.ZodSafeParseResult<z.output<Schema>> {
  const result = safeParse(schema, value);
  if (result.success || round === maxRounds) return result;
  const nulls = new Map(
    result.error.issues
      .flatMap((issue) => flatten(issue, []))
      .filter(({ issue, path }) => issue.code === 'unrecognized_keys' && valueAt(value, path) === null)
      .map(({ path }) => [path.map((part) => (typeof part === 'number' ? 0 : part)).join('\n'), path]),
  );
  if (nulls.size === 0 || nulls.size > maxNames) return result;
  const trimmed = [...nulls.values()].reduce(withoutNull, value);
  return parse(schema, trimmed, round + 1);
}

type ReadItem<Value> = { value: Value } | { issues: ValidationIssue[] };

/** Validates a part of a body at `location`. */
export function readItem<Schema extends z.ZodType>(
  schema: Schema,
  item: unknown,
  location: (string | number)[],
): ReadItem<z.output<Schema>> {
  const result = parse(schema, item);
  return result.success
    ? { value: result.data }
    : { issues: toValidationIssues(result.error.issues, item, location) };
}

/** A copy without the null at a path, in every element of the lists along it. */
function withoutNull(value: unknown, [first, ...rest]: (string | number)[]): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) return value.map((item) => withoutNull(item, rest));
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(
    ([name, inner]) => name !== first || rest.length > 0 || inner !== null,
  );
  return Object.fromEntries(
    kept.map(([name, inner]) => [name, name === first ? withoutNull(inner, rest) : inner]),
  );
}

/** Values with more nested values than this are validated only up to the first error. */
const maxValuesReadOn = 5000;

const firstErrorOnly: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true };

/**
 * Like `schema.safeParse`. Reports all errors only for small values: a body can contain millions of wrong
 * values, and reporting each would exhaust the memory.
 */
function safeParse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): z.ZodSafeParseResult<z.output<Schema>> {
  const result = schema.safeParse(value, firstErrorOnly);
  return result.success || isLarger(value, maxValuesReadOn) ? result : schema.safeParse(value);
}

/** Renames vendor aliases of fields. An alias together with its field is an error. */
export function renameAliases(
  body: JsonObject,
  aliases: Readonly<Record<string, string>>,
  location: string[] = [],
): JsonObject {
  let renamed = body;
  for (const [alias, name] of Object.entries(aliases)) {
    if (!(alias in body)) continue;
    const { [alias]: value, ...rest } = renamed;
    if (value !== null && rest[name] !== undefined && rest[name] !== null)
      throw unsupportedField([...location, alias], value, `${alias} is an alias of ${name}; send only one`);
    renamed = value === null ? rest : { ...rest, [name]: value };
  }
  return renamed;
}

/** Whether a value counts as absent: clients send defaults of options that nobody set. */
export function isUnset(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === 0) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

/** Refuses unknown fields: a misspelt option must not silently become a default. */
export function refuseUnknownFields(body: JsonObject, known: ReadonlySet<string>): void {
  const issues = Object.keys(body)
    .filter((name) => !known.has(name) && body[name] !== null)
    .slice(0, maxIssues)
    .map((name) => ({
      loc: ['body', name],
      msg: `Extra inputs are not permitted: unknown field ${name}`,
      type: 'extra_forbidden',
      input: body[name],
    }));
  if (issues.length > 0) throw new RequestValidationError(issues);
}

/** Fields of a body that are not in its schema. */
interface OtherFields {
  /** Names that others have for fields of the schema. */
  aliases: Readonly<Record<string, string>>;
  /** Fields of other services that this one lacks, each with what to do instead. */
  refused: Readonly<Record<string, string>>;
}

/** Validates a body with a contract schema and refuses unknown fields. */
export function validateBody<Schema extends z.ZodObject>(
  schema: Schema,
  sent: unknown,
  { aliases, refused }: OtherFields = { aliases: {}, refused: {} },
): z.output<Schema> {
  if (!isObject(sent)) return validate(schema, sent, 'body');
  for (const [name, remedy] of Object.entries(refused))
    if (sent[name] !== null && sent[name] !== undefined)
      throw unsupportedField([name], sent[name], `${name} is not supported by this service. ${remedy}`);
  const body = renameAliases(sent, aliases);
  refuseUnknownFields(body, fieldsOf(schema));
  return validate(schema, body, 'body');
}

const knownFields = new WeakMap<z.ZodObject, ReadonlySet<string>>();

/** The names of a schema's fields. */
function fieldsOf(schema: z.ZodObject): ReadonlySet<string> {
  const known = knownFields.get(schema) ?? new Set(Object.keys(schema.shape));
  knownFields.set(schema, known);
  return known;
}
