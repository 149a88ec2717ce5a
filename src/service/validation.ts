import type { z } from 'zod';
import type { ValidationIssue } from '../contract/index.ts';
import { isObject, type JsonObject } from '../util/json.ts';
import { RequestValidationError, unsupportedField } from './errors.ts';
import { largestIssueCount } from './shown-issue.ts';
import { flatten, toValidationIssues, valueAt } from './zod-issues.ts';

/** How often names of no field that stand for nothing are left out before a value is read again. */
const mostRounds = 16;
/** How many such names are left out at once. */
const mostNames = 64;

/** Reads a value with a schema; what is wrong becomes a 422 whose `loc` begins with `place`. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  place: 'body' | 'query' | 'path',
): z.output<Schema> {
  const result = parse(schema, value);
  if (result.success) return result.data;
  throw new RequestValidationError(toValidationIssues(result.error.issues, value, [place]));
}

/** As zod does it, but `null` means absent also under a name that is no field. */
function parse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  round = 0,
): z.ZodSafeParseResult<z.output<Schema>> {
  const result = safeParse(schema, value);
  if (result.success || round === mostRounds) return result;
  const nulls = new Map(
    result.error.issues
      .flatMap((issue) => flatten(issue, []))
      .filter(({ issue, path }) => issue.code === 'unrecognized_keys' && valueAt(value, path) === null)
      .map(({ path }) => [path.map((part) => (typeof part === 'number' ? 0 : part)).join('\n'), path]),
  );
  if (nulls.size === 0 || nulls.size > mostNames) return result;
  const trimmed = [...nulls.values()].reduce(withoutNull, value);
  return parse(schema, trimmed, round + 1);
}

export type ReadItem<Value> = { value: Value } | { issues: ValidationIssue[] };

/**
 * Reads a part of a body with a schema; `place` is where it stands. Complaints quote `original`: the item as the
 * request has it, where parts of it are read apart and stand in `item` as empty.
 */
export function readItem<Schema extends z.ZodType>(
  schema: Schema,
  item: unknown,
  place: (string | number)[],
  original: unknown = item,
): ReadItem<z.output<Schema>> {
  const result = parse(schema, item);
  return result.success
    ? { value: result.data }
    : { issues: toValidationIssues(result.error.issues, original, place) };
}

/** A copy of a value with no null at a path, whatever the places in lists that the path goes through. */
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

/** A value with more values in it than this is read up to its first fault alone. */
const valuesReadOn = 5000;

const upToFirstFault: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true };

/**
 * As `schema.safeParse`. Every fault of a value is told where the value is small: a body can hold millions of wrong
 * values, and to tell of each would take more memory than there is.
 */
function safeParse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): z.ZodSafeParseResult<z.output<Schema>> {
  const result = schema.safeParse(value, upToFirstFault);
  return result.success || holdsMoreThan(valuesReadOn, value) ? result : schema.safeParse(value);
}

function holdsMoreThan(limit: number, value: unknown): boolean {
  const waiting = [value];
  let count = 0;
  for (let next = waiting.pop(); waiting.length > 0 || next !== undefined; next = waiting.pop()) {
    if (++count > limit) return true;
    if (typeof next !== 'object' || next === null) continue;
    const inner: unknown[] = Array.isArray(next) ? next : Object.values(next);
    if (inner.length > limit) return true;
    waiting.push(...inner);
  }
  return false;
}

/** Gives fields that came under a vendor's name the interface's own. Both at once is a contradiction. */
export function renameAliases(
  body: JsonObject,
  aliases: Readonly<Record<string, string>>,
  place: string[] = [],
): JsonObject {
  let renamed = body;
  for (const [alias, name] of Object.entries(aliases)) {
    if (!(alias in body)) continue;
    const { [alias]: value, ...rest } = renamed;
    if (value !== null && rest[name] !== undefined && rest[name] !== null)
      throw unsupportedField(
        [...place, alias],
        value,
        `${alias} is another name of ${name}; send one of them`,
      );
    renamed = value === null ? rest : { ...rest, [name]: value };
  }
  return renamed;
}

/** Whether a value is as good as absent: clients send the defaults of options that nobody has set. */
export function asksForNothing(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === 0) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

/** Refuses fields the interface does not have: a misspelt option must not turn into a silent default. */
export function refuseUnknownFields(body: JsonObject, known: ReadonlySet<string>): void {
  const issues = Object.keys(body)
    .filter((name) => !known.has(name) && body[name] !== null)
    .slice(0, largestIssueCount)
    .map((name) => ({
      loc: ['body', name],
      msg: `Extra inputs are not permitted: ${name} is no field of this request`,
      type: 'extra_forbidden',
      input: body[name],
    }));
  if (issues.length > 0) throw new RequestValidationError(issues);
}

/** Validates a body against a schema of the contract, and refuses fields that the schema does not name. */
export function validateBody<Schema extends z.ZodObject>(schema: Schema, body: unknown): z.output<Schema> {
  if (isObject(body)) refuseUnknownFields(body, new Set(Object.keys(schema.shape)));
  return validate(schema, body, 'body');
}
