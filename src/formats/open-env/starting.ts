import { setTimeout as sleep } from 'node:timers/promises';
import { untilAborted } from '../../util/deadline.ts';
import { hasCode } from '../../util/error.ts';
import { OpenEnvError } from './error.ts';

/** What a server that is not up yet, or that restarts, did with a connection. It has begun nothing. */
class ServerStarting extends Error {}

/** Codes of errors of a server, or of a proxy before it, at whose address nothing listens yet. */
const codes = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'EAI_AGAIN',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
];

/** What a proxy answers while the server behind it is not there. */
const statuses = new Set([502, 503, 504]);

/** Why the server counts as starting: a status that it answered with, or an error without an answer. Null if it does not. */
export function startingOf(problem: unknown): ServerStarting | null {
  if (typeof problem === 'number')
    return statuses.has(problem) ? new ServerStarting(`it answered with ${problem}`) : null;
  return hasCode(problem, ...codes)
    ? new ServerStarting(problem.message || problem.code, { cause: problem })
    : null;
}

/** Pauses before the next try, in milliseconds. The last one repeats. */
const pausesMs = [100, 250, 500, 1000, 2000];

export const pauseBefore = (attempt: number): number => pausesMs[attempt] ?? pausesMs.at(-1) ?? 0;

interface StartingOptions {
  url: string;
  /** How long to wait for a server that is not up, in milliseconds. 0 tries once. */
  connectTimeoutMs: number;
  signal?: AbortSignal | undefined;
}

/**
 * Repeats work that fails with ServerStarting.
 * @throws OpenEnvError (`environment_server_away`) after `connectTimeoutMs`; the signal's reason when it aborts
 */
export async function whileStarting<Result>(
  { url, connectTimeoutMs, signal }: StartingOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  const startedMs = performance.now();
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof ServerStarting)) throw error;
      const leftMs = connectTimeoutMs - (performance.now() - startedMs);
      if (leftMs <= 0)
        throw away(
          url,
          `${error.message}, in ${attempt + 1} ${attempt > 0 ? `tries over ${connectTimeoutMs} ms` : 'try'}; start it, or raise connectTimeoutMs`,
          error.cause,
        );
      await untilAborted(sleep(Math.min(leftMs, pauseBefore(attempt)), undefined, { signal }), signal);
    }
  }
}

export const away = (url: string, why: string, cause?: unknown): OpenEnvError =>
  new OpenEnvError('environment_server_away', `The environment server ${url} is away: ${why}`, { cause });
