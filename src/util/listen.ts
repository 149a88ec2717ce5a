import { once } from 'node:events';
import { getRequestListener } from '@hono/node-server';
import type { Hono } from 'hono';
import { httpUrl, startListening } from './http-server.ts';

/** Clients keep connections for a minute; one that is closed just as a call begins would lose it. */
const keepAliveMs = 75_000;

/** Connections that wait to be accepted: a trainer begins all rollouts of a step at once. */
const backlog = 8192;

export interface Listening {
  url: string;
  /** Takes no more connections, ends those that are left when `work` has ended, and settles when all are gone. */
  close(work?: Promise<void>): Promise<void>;
}

/** Serves an app. With `idle`, it does not keep the process alive. @throws the system's error, as for a port in use. */
export async function listen(
  app: Hono,
  { host, port, idle = false }: { host: string; port: number; idle?: boolean },
): Promise<Listening> {
  // Loaded here, because it loads the global `fetch`.
  const { createServer } = await import('node:http');
  const server = createServer(getRequestListener(app.fetch));
  server.keepAliveTimeout = keepAliveMs;
  const listensOn = await startListening(server, { port, host, backlog });
  if (idle) {
    server.unref();
    server.on('connection', (socket) => socket.unref());
  }
  return {
    url: httpUrl(host, listensOn),
    close: async (work) => {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      try {
        await work;
      } finally {
        server.closeAllConnections();
        await closed;
      }
    },
  };
}
