import type { z } from 'zod';
import { isObject, type JsonObject } from '../util/json.ts';
import { EndpointError, invalid, unsupported } from './endpoint-error.ts';

export type Fields = JsonObject;

/** @param path Path of the field with this value. @throws EndpointError if the value is not an object. */
export function asFields(body: unknown, path?: string): Fields {
  if (isObject(body)) return { ...body };
  if (path !== undefined) throw invalid(path, 'is not a JSON object.');
  throw new EndpointError(400, 'invalid_body', 'The body is not a JSON object.');
}

/** Parses with the schema. @throws EndpointError for the issue with the longest path. */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  outerPath = '',
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [first] = parsed.error.issues;
  const { path, message } = first ? deepest(first) : { path: [], message: 'it is invalid' };
  const param = [outerPath, ...path.map(String)].filter((part) => part !== '').join('.');
  throw invalid(param || 'body', `cannot be read: ${message}.`);
}

/** For a union, the issue of the closest variant: the one with the longest path. */
function deepest(issue: z.core.$ZodIssue): { path: PropertyKey[]; message: string } {
  if (issue.code !== 'invalid_union') return issue;
  const inner = issue.errors.flatMap((variant) => variant.slice(0, 1).map(deepest));
  const found = inner.reduce((best, other) => (other.path.length > best.path.length ? other : best), {
    path: [],
    message: issue.message,
  });
  return { path: [...issue.path, ...found.path], message: found.message };
}

/** Fields for the provider's caches, accounts and safety. They do not change the reply. */
const ignoredFields = new Set([
  'prompt_cache_key',
  'prompt_cache_retention',
  'prompt_cache_options',
  'safety_identifier',
]);

/** Values that match the endpoint's behaviour. */
const defaults: Fields = { verbosity: 'medium', background: false, truncation: 'disabled' };

/**
 * Drops fields without effect and rejects unknown fields. `null` means absent.
 * @param remedies What to do instead, by the name of an unsupported field.
 * @throws EndpointError that names the field.
 */
export function checkNames(
  fields: Fields,
  known: ReadonlySet<string>,
  remedies: Record<string, string>,
): Fields {
  const kept: Fields = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || ignoredFields.has(name)) continue;
    if (Object.hasOwn(defaults, name) && defaults[name] === value) continue;
    const remedy = Object.hasOwn(remedies, name) ? remedies[name] : undefined;
    if (remedy !== undefined) throw unsupported(name, remedy);
    if (!known.has(name)) throw unsupported(name, 'Unknown field.');
    kept[name] = value;
  }
  return kept;
}
