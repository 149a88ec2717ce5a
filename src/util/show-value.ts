import { isAbsolute, relative } from 'node:path';
import type { z } from 'zod';

type Issue = z.core.$ZodIssue;

const maxTextLength = 100;
const maxNames = 8;

/** A value as error messages show it. Objects show only their field names, because their values may be secret. */
export function showValue(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > maxTextLength ? `${value.slice(0, maxTextLength)}…` : value);
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value !== 'object' || value === null) return String(value);
  const names = Object.keys(value);
  if (names.length === 0) return 'an object without fields';
  return `an object with ${names.slice(0, maxNames).join(', ')}${names.length > maxNames ? ', …' : ''}`;
}

/**
 * The first problem that a schema finds in a value, as a sentence: its path, the value there, and the reason. Null if
 * the only problems are unknown fields.
 * @param option Name of the option that holds the value.
 */
export function problemOf(option: string, value: unknown, { issues }: z.ZodError): string | null {
  const issue = firstOf(issues);
  if (!issue) return null;
  const path = issue.path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('');
  return `\`${option}${path}\` is ${showValue(valueAt(value, issue.path))}: ${issue.message}.`;
}

/** Like `problemOf`, for a schema that refuses unknown fields. */
export const problemsOf = (option: string, value: unknown, error: z.ZodError): string =>
  problemOf(option, value, error) ?? error.issues.map(({ message }) => `${message}.`).join(' ');

function firstOf(issues: readonly Issue[]): Issue | undefined {
  for (const issue of issues) {
    if (issue.code === 'unrecognized_keys') continue;
    if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue;
    // The union member whose error is inside a field is most likely the one that was meant.
    const meant = issue.errors.find(([first]) => first && first.path.length > 0) ?? issue.errors[0] ?? [];
    const inner = firstOf(meant);
    if (inner) return { ...inner, path: [...issue.path, ...inner.path] };
  }
  return undefined;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (outer, key) => (typeof outer === 'object' && outer !== null ? Reflect.get(outer, key) : undefined),
    value,
  );
}

/** A path as a person would type it: relative if it is inside the working directory, otherwise unchanged. */
export function shortPath(path: string): string {
  const relativePath = relative('', path);
  return relativePath === '' || relativePath.startsWith('..') || isAbsolute(relativePath)
    ? path
    : relativePath;
}
