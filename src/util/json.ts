import { createHash } from 'node:crypto';

export type JsonObject = Record<string, unknown>;

/** Whether a value is an object, but not null and not an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * JSON with the fields of every object sorted by name, so that equal values give equal text. `undefined` gives `null`.
 * @param withoutNull Leaves out fields that are null, since null means absent in requests. Default false.
 * @throws TypeError for values that JSON cannot hold, such as a BigInt or a cycle.
 */
export function canonicalJson(value: unknown, { withoutNull = false } = {}): string {
  return JSON.stringify(value, (_, nested: unknown) => sorted(nested, withoutNull)) ?? 'null';
}

function sorted(value: unknown, withoutNull: boolean): unknown {
  if (!isObject(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => !withoutNull || field !== null);
  return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** SHA-256 of a text, as hexadecimal text. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Whether arrays and objects are nested more than `limit` deep. */
export function isDeeperThan(value: unknown, limit: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= limit; depth++) {
    level = level.filter((part) => typeof part === 'object' && part !== null);
    if (level.length === 0) return false;
    level = level.flatMap((part) => Object.values(Object(part)));
  }
  return true;
}
