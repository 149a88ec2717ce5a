import type { Context } from 'hono';

export const requestIdHeader = 'x-request-id';

/** The id under which the answer, and the log, know a request. */
export function requestIdOf(context: Context): string | null {
  return context.res.headers.get(requestIdHeader);
}
