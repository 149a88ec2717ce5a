import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';
import type { Agent } from 'undici';
import { AnswerTooLarge, readAnswer, redirectOf } from '../../../util/answers.ts';
import { hasCode, isSystemError, messageOf } from '../../../util/error.ts';
import { guardedLookup, isPublic, listOf } from '../../../util/public-addresses.ts';
import { EngineError } from '../../engine.ts';

/** How the Hugging Face hub is called. */
export interface HubOptions {
  /** Default `https://huggingface.co`. */
  hubUrl?: string;
  /** For private repositories and those with terms to accept. */
  accessToken?: string;
  /** Milliseconds without an answer or a byte after which a connection counts as cut. Default 60000. */
  idleTimeoutMs?: number;
  /** Ends every wait, with its reason. */
  signal?: AbortSignal | undefined;
}

export const defaultIdleTimeoutMs = 60_000;

const defaultHubUrl = 'https://huggingface.co';

/** Pages of a list of files, and bytes of each. A page has up to 1,000 files. */
const [maxPages, maxPageBytes] = [100, 16 * 2 ** 20];

/** The connection of answers that are read whole, and together take as long as one may be silent. */
export function listing({ idleTimeoutMs = defaultIdleTimeoutMs, signal, ...options }: HubOptions) {
  const timeout = AbortSignal.timeout(idleTimeoutMs);
  const connected = connection(options, signal ? AbortSignal.any([signal, timeout]) : timeout);
  let pages = 0;
  return {
    ...connected,
    async fetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
      if (++pages > maxPages) throw lie(options, `lists more than ${maxPages} pages of files`);
      const answer = await connected.fetch(input, init);
      const bytes = await readAnswer(answer.body ?? Readable.from([]), maxPageBytes).catch(
        (error: unknown) => {
          throw error instanceof AnswerTooLarge ? lie(options, `answers, but ${error.message}`) : error;
        },
      );
      return new Response(answer.status === 204 ? null : bytes, answer);
    },
  };
}

/** What `@huggingface/hub` takes to call the hub. */
export function connection({ hubUrl, accessToken }: HubOptions, signal: AbortSignal) {
  return {
    ...(hubUrl !== undefined && { hubUrl }),
    ...(accessToken !== undefined && { accessToken }),
    fetch: (input: Parameters<typeof fetch>[0], init?: RequestInit) =>
      follow(new Request(input, { ...init, signal }), { hubUrl }),
  };
}

const maxRedirects = 5;

/**
 * Follows redirects: contents are at other servers than lists. The token stays with the hub, and only the hub itself may
 * be on a network of this machine, so that a hub cannot have others there asked in its name.
 */
async function follow(request: Request, options: HubOptions): Promise<Response> {
  const hub = new URL(options.hubUrl ?? defaultHubUrl);
  let [url, headers] = [new URL(request.url), request.headers];
  for (let redirects = 0; ; redirects++) {
    const { method, signal } = request;
    const ask = url.origin === hub.origin ? fetch : await publicFetch();
    const answer = await ask(url, { method, headers, signal, redirect: 'manual' });
    const target = redirectOf(answer.status, answer.headers.get('location'), url);
    if (target === null) return answer;
    await answer.body?.cancel();
    const address = target.hostname.replace(/^\[|\]$/g, '');
    const isInside = target.origin !== hub.origin && isIP(address) !== 0 && !isPublic(address);
    if (redirects === maxRedirects || !/^https?:$/.test(target.protocol) || isInside)
      throw lie(options, `redirects ${url.pathname} to ${target.origin}, which is not followed`);
    if (target.origin !== url.origin) {
      headers = new Headers(headers);
      for (const name of ['authorization', 'cookie']) headers.delete(name);
    }
    url = target;
  }
}

/** Made with the first redirect, for all. */
let dispatcher: Agent | undefined;

/** Connects to addresses of the public internet alone, whatever name they have. */
async function publicFetch(): Promise<typeof fetch> {
  // Node's own takes no agent of the package.
  const undici = await import('undici');
  const refusal = (hostname: string) => `${hostname} is on a network of this machine`;
  const guarded = guardedLookup(lookup as LookupFunction, listOf([]), refusal);
  dispatcher ??= new undici.Agent({ connect: { lookup: guarded }, pipelining: 1, keepAliveTimeout: 1000 });
  return (async (url: URL, init: object) =>
    undici.fetch(url, { ...init, dispatcher })) as unknown as typeof fetch;
}

/** The error for a server that answers, but is not a hub. */
const lie = ({ hubUrl = defaultHubUrl }: HubOptions, what: string): EngineError =>
  new EngineError(
    'hub_refused',
    `${hubUrl} ${what}. Check HF_ENDPOINT, or give the folder of a checkpoint on this machine.`,
  );

/** The hub's answer, or undefined for an error of the connection. */
const statusOf = (error: unknown): number | undefined =>
  error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;

/** Whether the hub refused a file, so that asking again does not help. */
export const isRefusal = (error: unknown) => (statusOf(error) ?? 500) < 500;

/** The error for a fetch that failed: of the hub, the connection or the disk. */
export function hubError(
  address: string,
  cause: unknown,
  { hubUrl = defaultHubUrl }: HubOptions,
): EngineError {
  if (EngineError.isInstance(cause)) return cause;
  // If no connection failed, which `fetch` would give as the cause, then the answer was wrong.
  const isAnswer = cause instanceof SyntaxError || (cause instanceof TypeError && cause.cause === undefined);
  if (isAnswer) return lie({ hubUrl }, `answers hf:${address}, but not as a hub does: ${cause.message}`);
  // `fetch` wraps the errors of connections in its own.
  if (isSystemError(cause) || hasCode(cause, 'ERR_SQLITE_ERROR'))
    return new EngineError('storage_failed', `hf:${address} cannot be stored: ${cause.message}.`, { cause });
  const status = statusOf(cause);
  if (status !== undefined && status < 500) {
    const remedy =
      status === 401 || status === 403
        ? 'Accept its terms on the hub and set HF_TOKEN, or check the name.'
        : 'Check the name and the revision.';
    return new EngineError(
      'hub_refused',
      `hf:${address}: ${hubUrl} answered ${status}: ${messageOf(cause)}. ${remedy}`,
      { cause },
    );
  }
  const reason = messageOf(cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause);
  const message =
    `hf:${address} cannot be fetched: ${hubUrl} is not reachable (${reason}). ` +
    'Try again (it continues where it stopped), or give the folder of a checkpoint on this machine.';
  return new EngineError('hub_unreachable', message, { cause });
}
