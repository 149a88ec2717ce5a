import { type Dispatcher, request } from 'undici';
import type { z } from 'zod';
import { away } from './episode.ts';
import { OpenEnvError } from './error.ts';

/** Longest wait for an answer over HTTP, in milliseconds. */
const timeoutMs = 30_000;

/** Where a server is, and how it is asked. */
export interface ServerAddress {
  url: string;
  dispatcher: Dispatcher;
  headers: Record<string, string>;
}

/** What the server says over HTTP; null if it does not have this address (404, 405) or does not provide it (501). */
export async function readHttp<Schema extends z.ZodType>(
  { url, dispatcher, headers }: ServerAddress,
  { path, schema, body }: { path: string; schema: Schema; body?: object },
): Promise<z.output<Schema> | null> {
  let status: number;
  let text: string;
  try {
    const answer = await request(`${url}${path}`, {
      method: body ? 'POST' : 'GET',
      dispatcher,
      headers: body ? { ...headers, 'content-type': 'application/json' } : headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(timeoutMs),
    });
    status = answer.statusCode;
    text = await answer.body.text();
  } catch (cause) {
    throw away(url, cause instanceof Error ? cause.message || cause.name : String(cause), cause);
  }
  if (status === 404 || status === 405 || status === 501) return null;
  const refused = (what: string) =>
    new OpenEnvError('environment_server_refused', `the environment server ${url} answered ${path} ${what}`);
  if (status >= 300) throw refused(`with ${status}: ${text.slice(0, 500)}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refused('with what is not JSON');
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw refused(`with what OpenEnv does not have: ${issue?.path.join('.')}: ${issue?.message}`);
}
