import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import { type Client, type ClientOptions, createClient } from '../../src/client/index.ts';
import { startServer } from '../support/http-server.ts';

export interface Received {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export type Answerer = (response: ServerResponse, request: Received) => void;

/**
 * A real server on a free port that answers its nth request with the nth answerer, and later ones with the last.
 * `client` calls it with almost no pause between retries. Both close with the test.
 */
export async function serve(...answerers: Answerer[]) {
  const received: Received[] = [];
  const { server, url, close } = await startServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const got = { method, url, headers, body: Buffer.concat(chunks).toString() };
      const answer = answerers[Math.min(received.length, answerers.length - 1)];
      received.push(got);
      answer?.(response, got);
    });
  });
  const clients: Client[] = [];
  const connect = (options: Partial<ClientOptions> = {}) => {
    const client = createClient({ baseUrl: url, apiKey: 'key', backoffMs: 0.1, ...options });
    clients.push(client);
    return client;
  };
  onTestFinished(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await close();
  });
  return { url, received, connect, client: connect(), server };
}

export const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Answerer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };

/** Sends server-sent events, then ends the response or cuts the connection. */
export const eventStream =
  (messages: string[], end: 'clean' | 'cut' | 'open' = 'clean'): Answerer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.write(': hello\n\n');
    for (const message of messages) response.write(`${message}\n\n`);
    if (end === 'clean') response.end();
    else if (end === 'cut') response.write(': bye\n\n', () => response.destroy());
  };

export const silence: Answerer = () => {};

export const cutInBody: Answerer = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
  response.write('{"id": "', () => response.destroy());
};

export const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
