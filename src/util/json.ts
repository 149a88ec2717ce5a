import { createHash } from 'node:crypto';

export type JsonObject = Record<string, unknown>;

/** The value of a JSON text; undefined for any other text. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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

/** Whether a value holds more than `limit` values. A text counts as `weigh` says, by default as one. */
export const isLarger = (value: unknown, limit: number, weigh: (text: string) => number = () => 1): boolean =>
  roomLeft(value, limit, weigh) < 0;

/** The weight of a text in work on it: this many of its characters take as long as one value. */
export const weightOfText = ({ length }: string): number => 1 + length / 64;

/** What is left of `room` after a value; it stops early when that is negative. */
function roomLeft(value: unknown, room: number, weigh: (text: string) => number): number {
  if (typeof value === 'string') return room - weigh(value);
  let left = room - 1;
  if (typeof value !== 'object' || value === null) return left;
  // Indices, because iterators were a fifteenth of what a training step allocates.
  if (Array.isArray(value))
    for (let index = 0; index < value.length && left >= 0; index++)
      left = roomLeft(value[index], left, weigh);
  else
    for (const key in value) {
      if (left < 0) break;
      left = roomLeft(Reflect.get(value, key), left, weigh);
    }
  return left;
}
