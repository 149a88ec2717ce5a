import { messageOf, RequestValidationError } from '../errors.ts';
import { type FoundData, type Limits, refuse } from './found-data.ts';
import type { TrainingDataSources } from './sources.ts';

const mostRedirects = 5;
const redirects = new Set([301, 302, 303, 307, 308]);

/** Fetches what an `https:` URL names, as long as it and every redirect stays on the allowed hosts. */
export async function fetchUrl(
  url: URL,
  sources: TrainingDataSources,
  limits: Limits,
  closing: AbortSignal,
): Promise<FoundData> {
  const deadline = AbortSignal.timeout(sources.timeoutMs);
  const signal = AbortSignal.any([deadline, closing]);
  try {
    const response = await follow(url, sources, signal);
    return { bytes: await readAtMost(response, url, limits.bytes), examples: null };
  } catch (error) {
    if (error instanceof RequestValidationError) throw error;
    if (closing.aborted) throw closing.reason;
    const reason = deadline.aborted ? `it took longer than ${sources.timeoutMs} ms` : reasonOf(error);
    throw refuse(url.href, `could not be fetched: ${reason}`);
  }
}

async function follow(first: URL, sources: TrainingDataSources, signal: AbortSignal): Promise<Response> {
  let url = first;
  for (let hops = 0; hops <= mostRedirects; hops++) {
    checkAllowed(url, first, sources);
    const response = await fetch(url, { redirect: 'manual', signal });
    if (response.status === 200) return response;
    await response.body?.cancel();
    const location = response.headers.get('location');
    if (!redirects.has(response.status) || location === null || !URL.canParse(location, url.href))
      throw refuse(first.href, `could not be fetched: ${url.origin} answered ${response.status}`);
    url = new URL(location, url);
  }
  throw refuse(first.href, `could not be fetched: it was redirected more than ${mostRedirects} times`);
}

function checkAllowed(url: URL, first: URL, { origins }: TrainingDataSources): void {
  if (url.username !== '' || url.password !== '')
    throw refuse(first.href, 'must not hold a user name or a password');
  if (origins.includes(url.origin)) return;
  const what = url === first ? `${url.origin} is` : `it redirects to ${url.origin}, which is`;
  const allowed =
    origins.length === 0
      ? 'the operator has allowed none (serve --allow-data-host). Upload the data instead'
      : `allowed are ${origins.join(', ')}`;
  throw refuse(first.href, `${what} no host that data is fetched from here; ${allowed}`);
}

async function readAtMost(response: Response, url: URL, limit: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop early cancels the download.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > limit) throw refuse(url.href, `has more than the ${limit} bytes that are taken`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** What the network said: `fetch` itself says no more than that it failed. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return messageOf(error);
  return cause.message || ('code' in cause ? String(cause.code) : messageOf(error));
}
