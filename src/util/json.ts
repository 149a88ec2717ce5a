export type JsonObject = Record<string, unknown>;

/** Whether a value is an object and neither null nor an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * JSON in which the fields of every object are sorted by name, so that equal values give equal text. `undefined` gives
 * `null`.
 * @param withoutNull Leaves out fields that are null: in requests null means absent. Default false.
 * @throws TypeError for what JSON cannot hold, such as a BigInt or a circle.
 */
export function canonicalJson(value: unknown, { withoutNull = false } = {}): string {
  return JSON.stringify(value, (_, nested: unknown) => sorted(nested, withoutNull)) ?? 'null';
}

function sorted(value: unknown, withoutNull: boolean): unknown {
  if (!isObject(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => !withoutNull || field !== null);
  return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}
