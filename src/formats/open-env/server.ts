import { type Dispatcher, request } from 'undici';
import type { z } from 'zod';
import { describeThrown } from '../../environment/index.ts';
import { readText } from '../../util/answers.ts';
import { OpenEnvError } from './error.ts';
import { away, startingOf, whileStarting } from './starting.ts';

/** Longest wait for an answer over HTTP, in milliseconds. */
const timeoutMs = 30_000;

/** Longest answer over HTTP. */
const maxAnswerBytes = 16 * 2 ** 20;

/** A server's address, and how to call it. */
export interface ServerAddress {
  url: string;
  dispatcher: Dispatcher;
  headers: Record<string, string>;
  /** How long to wait for a server that is not up, in milliseconds. */
  connectTimeoutMs: number;
}

interface Question<Schema> {
  path: string;
  schema: Schema;
  body?: object;
  /** Ends the wait, with its reason. */
  signal: AbortSignal | undefined;
}

/**
 * What the server says over HTTP; null if it does not have this address (404, 405) or does not provide it (501). Waits
 * for a server that is not up: a question changes nothing there, so that it may be asked again.
 */
export const readHttp = <Schema extends z.ZodType>(
  server: ServerAddress,
  question: Question<Schema>,
): Promise<z.output<Schema> | null> =>
  whileStarting({ ...server, signal: question.signal }, () => ask(server, question));

async function ask<Schema extends z.ZodType>(
  { url, dispatcher, headers }: ServerAddress,
  { path, schema, body, signal }: Question<Schema>,
): Promise<z.output<Schema> | null> {
  let status: number;
  let text: string;
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await request(`${url}${path}`, {
      method: body ? 'POST' : 'GET',
      dispatcher,
      headers: body ? { ...headers, 'content-type': 'application/json' } : headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    status = answer.statusCode;
    text = await readText(answer.body, maxAnswerBytes);
  } catch (cause) {
    signal?.throwIfAborted();
    throw startingOf(cause) ?? away(url, describeThrown(cause), cause);
  }
  const starting = startingOf(status);
  if (starting) throw starting;
  if (status === 404 || status === 405 || status === 501) return null;
  const refused = (what: string) =>
    new OpenEnvError('environment_server_refused', `The environment server ${url} answered ${path} ${what}`);
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
