import type { z } from 'zod';

/** A value with more values in it than this is read up to its first fault alone. */
const valuesReadOn = 5000;

const upToFirstFault: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true };

/**
 * As `schema.safeParse`. Every fault of a value is told where the value is small: a body can hold millions of wrong
 * values, and to tell of each would take more memory than there is.
 */
export function safeParse<Schema extends z.ZodType>(
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
