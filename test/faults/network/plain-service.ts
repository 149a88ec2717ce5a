import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startServer } from '../../support/http-server.ts';

/** Routes that only our service has, except uploads, which `sft` needs. */
const ours = [
  /^GET \/v1\/preview\/models$/,
  /^GET \/v1\/preview\/models\/[^/]+$/,
  /\/fork$/,
  /\/download$/,
  /\/cancel$/,
  /^GET \/v1\/openapi\.json$/,
];

/**
 * A proxy that reduces our service to the bare interface: no idempotency keys, no event stream, and of a job only its
 * id. Jobs are so quick that they have ended when their events are requested.
 */
export async function startPlainService(target: string) {
  const ask = async (request: IncomingMessage, body: Buffer): Promise<Response> => {
    const { 'idempotency-key': key, host, connection, 'content-length': length, ...rest } = request.headers;
    void [key, host, connection, length];
    const { method = 'GET', url = '' } = request;
    const headers = Object.entries(rest).map(([name, value]): [string, string] => [name, String(value)]);
    const call = { method, ...(body.length > 0 && { body }) };
    if (!/\/events(\?|$)/.test(url)) return fetch(`${target}${url}`, { ...call, headers });
    const others = headers.filter(([name]) => name !== 'accept' && name !== 'last-event-id');
    const stream = await fetch(`${target}${url.split('?')[0]}`, {
      headers: [...others, ['accept', 'text/event-stream']],
    });
    await stream.text();
    return fetch(`${target}${url}`, { headers: [...others, ['accept', 'application/json']] });
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url = '' } = request;
    const asked = `${method} ${url.split('?')[0]}`;
    if (ours.some((pattern) => pattern.test(asked))) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
      return;
    }
    const reply = await ask(request, await buffer(request));
    let body = Buffer.from(await reply.arrayBuffer());
    if (reply.ok && /^GET \/v1\/preview\/training-jobs\/[^/]+$/.test(asked))
      body = Buffer.from(JSON.stringify({ id: JSON.parse(body.toString()).id }));
    const type = reply.headers.get('content-type') ?? 'application/json';
    response.writeHead(reply.status, { 'content-type': type }).end(body);
  };
  return startServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
}
