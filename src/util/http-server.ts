import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import type { ListenOptions, Server } from 'node:net';

/** Lets a server listen, and gives its port: a free one for 0. @throws the system's error, as for a port in use */
export async function startListening(server: Server, options: ListenOptions): Promise<number> {
  server.listen(options);
  await once(server, 'listening');
  const address = server.address();
  if (typeof address === 'object' && address) return address.port;
  throw new TypeError('the server has no port');
}

/**
 * Takes no more connections and closes each as it becomes idle; after `timeoutMs` all that are left. Settles when the last
 * has ended.
 */
export async function stopListening(server: HttpServer, timeoutMs: number): Promise<void> {
  const cut = setTimeout(() => server.closeAllConnections(), timeoutMs);
  const sweep = setInterval(() => server.closeIdleConnections(), 20);
  await new Promise((resolve) => server.close(resolve).closeIdleConnections());
  clearTimeout(cut);
  clearInterval(sweep);
}

export const httpUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
