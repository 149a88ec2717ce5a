import type { BlockList } from 'node:net';
import type { Agent, Response } from 'undici';
import { guardedLookup } from '../../util/public-addresses.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { faultCodeOf } from '../faults.ts';
import { type DataTaker, type FoundData, refuse, type TrainingDataSources } from './sources.ts';

const maxRedirects = 5;
const redirects = new Set([301, 302, 303, 307, 308]);

/**
 * Fetches an `https:` URL, if it and every redirect stay on allowed hosts and addresses. Connects
 * directly, without proxies from the environment, and sends nothing of the original request.
 */
export async function fetchUrl(
  url: URL,
  sources: TrainingDataSources,
  taker: DataTaker,
  closing: AbortSignal,
): Promise<FoundData> {
  const deadline = AbortSignal.timeout(sources.timeoutMs);
  const signal = AbortSignal.any([deadline, closing]);
  const agents: Agent[] = [];
  try {
    const response = await follow(url, sources, { signal, agents });
    await readAtMost(response, url, taker);
    return { examples: null };
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    if (closing.aborted) throw closing.reason;
    // Storing failed, or no file handle was free: not the URL's fault.
    if (faultCodeOf(error)) throw error;
    const reason = deadline.aborted ? `it took longer than ${sources.timeoutMs} ms` : reasonOf(error);
    throw refuse(url.href, `could not be fetched: ${reason}`);
  } finally {
    await Promise.all(agents.map((agent) => agent.destroy()));
  }
}

async function follow(
  first: URL,
  sources: TrainingDataSources,
  { signal, agents }: { signal: AbortSignal; agents: Agent[] },
): Promise<Response> {
  const { Agent, fetch } = await import('undici');
  let url = first;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const addresses = checkAllowed(url, first, sources);
    const dispatcher = new Agent({
      connect: { lookup: guardedLookup(sources.lookup, addresses, notPublic) },
    });
    agents.push(dispatcher);
    const response = await fetch(url, { redirect: 'manual', signal, dispatcher });
    if (response.status === 200) return response;
    await response.body?.cancel();
    const location = response.headers.get('location');
    if (!redirects.has(response.status) || location === null || !URL.canParse(location, url.href))
      throw refuse(first.href, `could not be fetched: ${url.origin} answered ${response.status}`);
    url = new URL(location, url);
  }
  throw refuse(first.href, `could not be fetched: it was redirected more than ${maxRedirects} times`);
}

/** The addresses that the host may resolve to besides public ones. */
function checkAllowed(url: URL, first: URL, { origins }: TrainingDataSources): BlockList {
  if (url.username !== '' || url.password !== '')
    throw refuse(first.href, 'must not hold a user name or a password');
  const addresses = origins.get(url.origin);
  if (addresses) return addresses;
  const what = url === first ? `${url.origin} is` : `it redirects to ${url.origin}, which is`;
  const allowed =
    origins.size === 0
      ? 'the operator has allowed none (serve --allow-data-host). Upload the data instead'
      : `allowed are ${[...origins.keys()].join(', ')}`;
  throw refuse(first.href, `${what} not a host that data may be fetched from; ${allowed}`);
}

async function readAtMost(response: Response, url: URL, { limit, expect, take }: DataTaker): Promise<void> {
  const declared = Number(response.headers.get('content-length') ?? 0);
  if (declared <= limit) expect?.(declared);
  let bytes = 0;
  // Leaving the loop early cancels the download.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > limit) throw refuse(url.href, `exceeds the limit of ${limit} bytes`);
    await take(chunk);
  }
}

/** The network's error message: `fetch` itself only says that it failed. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return messageOf(error);
  return cause.message || ('code' in cause ? String(cause.code) : messageOf(error));
}

const notPublic = (hostname: string) =>
  `${hostname} resolves to a non-public address that the operator has not allowed (serve --allow-data-host ${hostname}=<address>)`;
