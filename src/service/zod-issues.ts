import type { z } from 'zod';
import type { ValidationIssue } from '../contract/index.ts';
import { largestOf } from '../util/extremes.ts';
import { maxIssues } from './errors.ts';

type ZodIssue = z.core.$ZodIssue;

/** Converts zod's issues to the format of FastAPI, which clients expect. */
export function toValidationIssues(
  issues: readonly ZodIssue[],
  root: unknown,
  location: (string | number)[],
): ValidationIssue[] {
  return issues
    .flatMap((issue) => flatten(issue, []))
    .slice(0, maxIssues)
    .map(({ issue, path }) => describe(issue, path, root, location));
}

interface Located {
  issue: ZodIssue;
  path: (string | number)[];
}

/** Flattens union errors: of all branches, reports the issues of the one that fits best. */
export function flatten(issue: ZodIssue, prefix: (string | number)[]): Located[] {
  const path = [...prefix, ...issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))];
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, maxIssues).map((key) => ({ issue, path: [...path, key] }));
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return [{ issue, path }];
  const meant = issue.errors.filter((branch) => !branch.some(isOfOtherKind));
  const branches = (meant.length > 0 ? meant : issue.errors).map((branch) =>
    branch.flatMap((inner) => flatten(inner, path)),
  );
  const depth = (branch: Located[]) =>
    largestOf(
      branch.map((located) => located.path.length),
      0,
    );
  branches.sort(
    (a, b) =>
      Number(isOfOtherForm(a)) - Number(isOfOtherForm(b)) || depth(b) - depth(a) || a.length - b.length,
  );
  return branches[0] ?? [{ issue, path }];
}

const formCodes: ReadonlySet<ZodIssue['code']> = new Set([
  'invalid_type',
  'unrecognized_keys',
  'invalid_union',
]);

/**
 * Whether a branch's only issues are about the value's type. A branch of the right type may still fail on
 * a size.
 */
const isOfOtherForm = (branch: readonly Located[]) => branch.every(({ issue }) => formCodes.has(issue.code));

/** Whether a branch's discriminator excludes this value; its other issues are then irrelevant. */
function isOfOtherKind(issue: ZodIssue): boolean {
  if (issue.path.length !== 1) return false;
  if (issue.code === 'custom') return issue.params?.discriminator === true;
  return issue.code === 'invalid_union' && issue.errors.length === 0;
}

function describe(
  issue: ZodIssue,
  path: (string | number)[],
  root: unknown,
  location: (string | number)[],
): ValidationIssue {
  const { value, exists } = lookUp(root, path);
  const loc = [...location, ...path].map(String);
  // A missing value cannot be quoted; quote what it is missing from.
  if (!exists && requiresValue.has(issue.code))
    return { loc, msg: 'Field required', type: 'missing', input: value };
  if (issue.code === 'unrecognized_keys')
    return { loc, msg: 'Extra inputs are not permitted', type: 'extra_forbidden', input: value };
  const { type, ctx } = kind(issue);
  return { loc, msg: issue.message, type, input: value, ...(ctx ? { ctx } : {}) };
}

/** Issues that zod reports for a missing value as for a wrong one. */
const requiresValue: ReadonlySet<ZodIssue['code']> = new Set([
  'invalid_type',
  'invalid_value',
  'invalid_union',
]);

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
      if (issue.origin === 'array' || issue.origin === 'object')
        return { type: 'too_long', ctx: { max_length: maximum } };
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

const typeNames: Record<string, string> = {
  string: 'string_type',
  number: 'float_type',
  int: 'int_type',
  boolean: 'bool_type',
  array: 'list_type',
  object: 'dict_type',
  record: 'dict_type',
};

/** The value at a path; undefined if there is none. */
export function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  const { value, exists } = lookUp(root, path);
  return exists ? value : undefined;
}

/** The value at a path; if there is none, the innermost existing one along it. */
function lookUp(root: unknown, path: readonly (string | number)[]): { value: unknown; exists: boolean } {
  let value = root;
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part))
      return { value, exists: false };
    value = Reflect.get(value, part);
  }
  return { value, exists: value !== undefined };
}
