/**
 * Why a value would not come back from JSON as it is, with the place; undefined where it would. A property that is
 * undefined reads the same when it is absent, so it passes.
 */
export function lostInJson(value: unknown): string | undefined {
  return value === undefined ? undefined : lost(value, 'it', new Set());
}

function lost(value: unknown, place: string, within: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : `${place} is ${value}`;
    case 'object':
      return value === null ? undefined : lostInObject(value, place, within);
    default:
      return `${place} is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`;
  }
}

function lostInObject(value: object, place: string, within: Set<object>): string | undefined {
  if (within.has(value)) return `${place} contains itself`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null)
    return `${place} is an instance of ${value.constructor?.name || 'a class'}`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return `${place} has toJSON`;
  within.add(value);
  const found = Array.isArray(value)
    ? first(value.entries(), (member, index) => lost(member, `${place}[${index}]`, within))
    : first(Object.entries(value), (member, name) =>
        member === undefined ? undefined : lost(member, `${place}.${name}`, within),
      );
  within.delete(value);
  return found;
}

function first<Key>(
  entries: Iterable<[Key, unknown]>,
  find: (member: unknown, key: Key) => string | undefined,
): string | undefined {
  for (const [key, member] of entries) {
    const found = find(member, key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The value as JSON has it, whatever it loses; null where it cannot be written at all. */
export function asJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return null;
  }
}
