/** Errors of a chain that are looked at: an error may have any number of causes, and be its own. */
const mostErrors = 16;

/** A property of whatever was thrown; undefined where it has none, or does not let it be read. */
export function readThrown(thrown: unknown, property: string): unknown {
  try {
    return typeof thrown === 'object' && thrown !== null ? Reflect.get(thrown, property) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What was thrown, and what it holds as its reasons: causes, the errors of an AggregateError, and the last error of
 * the AI SDK's RetryError. Each once, outermost first, 16 at most.
 */
export function errorsWithin(thrown: unknown): unknown[] {
  const found = new Set<unknown>([thrown]);
  for (const error of found) {
    const several = readThrown(error, 'errors');
    const reasons = [
      readThrown(error, 'cause'),
      readThrown(error, 'lastError'),
      ...(Array.isArray(several) ? several.slice(0, mostErrors) : []),
    ];
    for (const reason of reasons)
      if (reason !== undefined && reason !== null && found.size < mostErrors) found.add(reason);
  }
  return [...found];
}
