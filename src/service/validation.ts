import type { z } from 'zod';
import type { ValidationIssue } from '../contract/index.ts';
import { RequestValidationError } from './errors.ts';
import { inSlices } from './slices.ts';

type ZodIssue = z.core.$ZodIssue;

const largestIssueCount = 100;
const largestInputLength = 1000;

const typeNames: Record<string, string> = {
  string: 'string_type',
  number: 'float_type',
  int: 'int_type',
  boolean: 'bool_type',
  array: 'list_type',
  object: 'dict_type',
  record: 'dict_type',
};

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
): z.ZodSafeParseResult<z.output<Schema>> {
  const result = schema.safeParse(value);
  if (result.success) return result;
  const nulls = result.error.issues
    .flatMap((issue) => flatten(issue, []))
    .filter(({ issue, path }) => issue.code === 'unrecognized_keys' && valueAt(value, path) === null);
  if (nulls.length === 0) return result;
  return parse(
    schema,
    nulls.reduce((trimmed, { path }) => without(trimmed, path), value),
  );
}

/** As `validate`, for a list that may be megabytes long: item by item, with turns for others between slices. */
export async function validateItems<Schema extends z.ZodType>(
  schema: Schema,
  items: readonly unknown[],
  place: (string | number)[],
): Promise<z.output<Schema>[]> {
  const valid: z.output<Schema>[] = [];
  const issues: ValidationIssue[] = [];
  for await (const [index, item] of inSlices(items)) {
    const result = parse(schema, item);
    if (result.success) valid.push(result.data);
    else issues.push(...toValidationIssues(result.error.issues, item, [...place, index]));
    if (issues.length >= largestIssueCount) break;
  }
  if (issues.length > 0) throw new RequestValidationError(issues.slice(0, largestIssueCount));
  return valid;
}

/** Issues of zod in the shape that clients of FastAPI services read. */
export function toValidationIssues(
  issues: readonly ZodIssue[],
  root: unknown,
  place: (string | number)[],
): ValidationIssue[] {
  return issues
    .flatMap((issue) => flatten(issue, []))
    .slice(0, largestIssueCount)
    .map(({ issue, path }) => describe(issue, path, root, place));
}

interface Located {
  issue: ZodIssue;
  path: (string | number)[];
}

/** A failed union says only that nothing fitted; the branch that came nearest says what to mend. */
function flatten(issue: ZodIssue, prefix: (string | number)[]): Located[] {
  const path = [...prefix, ...issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))];
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => ({ issue, path: [...path, key] }));
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return [{ issue, path }];
  const meant = issue.errors.filter((branch) => !branch.some(isOfOtherKind));
  const branches = (meant.length > 0 ? meant : issue.errors).map((branch) =>
    branch.flatMap((inner) => flatten(inner, path)),
  );
  const depth = (branch: Located[]) => Math.max(0, ...branch.map((located) => located.path.length));
  branches.sort((a, b) => depth(b) - depth(a) || a.length - b.length);
  return branches[0] ?? [{ issue, path }];
}

/** Whether a branch says by its discriminator that it is not for this value: what else it says is beside the point. */
function isOfOtherKind(issue: ZodIssue): boolean {
  if (issue.path.length !== 1) return false;
  if (issue.code === 'custom') return issue.params?.discriminator === true;
  return issue.code === 'invalid_union' && issue.errors.length === 0;
}

function describe(
  issue: ZodIssue,
  path: (string | number)[],
  root: unknown,
  place: (string | number)[],
): ValidationIssue {
  const input = valueAt(root, path);
  const loc = [...place, ...path];
  if (issue.code === 'invalid_type' && input === undefined)
    return { loc, msg: 'Field required', type: 'missing', input: shorten(valueAt(root, path.slice(0, -1))) };
  if (issue.code === 'unrecognized_keys')
    return { loc, msg: 'Extra inputs are not permitted', type: 'extra_forbidden', input: shorten(input) };
  const { type, ctx } = kind(issue);
  return { loc, msg: issue.message, type, input: shorten(input), ...(ctx ? { ctx } : {}) };
}

function kind(issue: ZodIssue): { type: string; ctx?: Record<string, unknown> } {
  switch (issue.code) {
    case 'invalid_type':
      return {
        type: typeNames[issue.expected] ?? `${issue.expected}_type`,
        ctx: { expected: issue.expected },
      };
    case 'too_small': {
      const minimum = Number(issue.minimum);
      if (issue.origin === 'string') return { type: 'string_too_short', ctx: { min_length: minimum } };
      if (issue.origin === 'array') return { type: 'too_short', ctx: { min_length: minimum } };
      return issue.inclusive
        ? { type: 'greater_than_equal', ctx: { ge: minimum } }
        : { type: 'greater_than', ctx: { gt: minimum } };
    }
    case 'too_big': {
      const maximum = Number(issue.maximum);
      if (issue.origin === 'string') return { type: 'string_too_long', ctx: { max_length: maximum } };
      if (issue.origin === 'array') return { type: 'too_long', ctx: { max_length: maximum } };
      return issue.inclusive
        ? { type: 'less_than_equal', ctx: { le: maximum } }
        : { type: 'less_than', ctx: { lt: maximum } };
    }
    case 'invalid_value':
      return { type: 'literal_error', ctx: { expected: issue.values.map(String) } };
    case 'invalid_format':
      return issue.format === 'regex'
        ? { type: 'string_pattern_mismatch', ctx: { pattern: issue.pattern } }
        : { type: `${issue.format}_parsing` };
    case 'invalid_union':
      return { type: 'union_tag_invalid' };
    default:
      return { type: 'value_error', ctx: { error: issue.message } };
  }
}

function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, part);
  }
  return value;
}

/** A copy of a value in which there is nothing at a path. */
function without(value: unknown, [first, ...rest]: (string | number)[]): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) return value.map((item, index) => (index === first ? without(item, rest) : item));
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => name !== first || rest.length > 0);
  return Object.fromEntries(
    kept.map(([name, inner]) => [name, name === first ? without(inner, rest) : inner]),
  );
}

/** A body can be megabytes; an error message need not carry it back. */
function shorten(value: unknown): unknown {
  if (typeof value === 'string')
    return value.length > largestInputLength ? `${value.slice(0, largestInputLength)}…` : value;
  if (typeof value !== 'object' || value === null) return value;
  return JSON.stringify(value).length > largestInputLength ? undefined : value;
}
