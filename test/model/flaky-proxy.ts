import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { createClient } from 'martingale';
import { startServer } from '../support/http-server.ts';

/** The fate of a request: it passes, gets a 500 or 503, or its answer is cut or ended cleanly before a text. */
export type Fate = 'pass' | 'fail' | 'busy' | { cutBefore: string } | { endBefore: string };

/** A proxy that applies a list of fates to chat requests, in order. Later requests pass. */
export async function startFlakyProxy(
  target: string,
  fates: Fate[],
  { retries = 0 }: { retries?: number } = {},
) {
  const left = [...fates];
  const bodies: string[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    bodies.push(body);
    const fate = left.shift() ?? 'pass';
    if (fate === 'fail' || fate === 'busy') {
      response.writeHead(fate === 'fail' ? 500 : 503, { 'content-type': 'application/json' });
      return response.end('{"detail":"out of luck"}');
    }
    const { method = 'POST', url = '/' } = request;
    const headers = {
      'content-type': 'application/json',
      authorization: String(request.headers.authorization),
    };
    const answer = await fetch(`${target}${url}`, { method, headers, body });
    const bytes = Buffer.from(await answer.arrayBuffer());
    response.writeHead(answer.status, {
      'content-type': answer.headers.get('content-type') ?? 'application/json',
    });
    if (fate === 'pass') return response.end(bytes);
    if ('endBefore' in fate) return response.end(bytes.subarray(0, bytes.indexOf(fate.endBefore)));
    response.write(bytes.subarray(0, bytes.indexOf(fate.cutBefore)), () => response.destroy());
    return response;
  };
  const server = await startServer((request, response) => void handle(request, response));
  const client = createClient({ baseUrl: server.url, apiKey: 'key', retries, backoffMs: 0 });
  return {
    client,
    /** Bodies of the requests, in order. */
    bodies,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
