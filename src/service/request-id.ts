import type { Context } from 'hono';

export const requestIdHeader = 'x-request-id';

export const longestRequestId = 128;
/** What a client's own id of a request has to look like. */
export const requestIdPattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** The id under which the answer, and the log, know a request. */
export function requestIdOf(context: Context): string | null {
  return context.res.headers.get(requestIdHeader);
}
