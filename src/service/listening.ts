import { createAdaptorServer, type ServerType } from '@hono/node-server';

/**
 * Connections that wait to be accepted, as far as the system lets there be so many. With Node's 511, of thousands that
 * come at once some are cut.
 */
const backlog = 16_384;

/** A server that listens. Rejects with the system's errors of listening. */
export function listen(
  fetch: (request: Request) => Response | Promise<Response>,
  { host, port, receiveTimeoutMs }: { host: string; port: number; receiveTimeoutMs: number },
): Promise<ServerType> {
  // Node counts the time from a request's first byte to its last; the answer may take as long as it does.
  const serverOptions = {
    requestTimeout: receiveTimeoutMs,
    connectionsCheckingInterval: Math.min(30_000, receiveTimeoutMs),
  };
  return new Promise((resolve, reject) => {
    const server = createAdaptorServer({ fetch, hostname: host, serverOptions });
    server.once('error', reject);
    server.listen({ port, host, backlog }, () => {
      server.off('error', reject);
      resolve(server);
    });
  });
}

/** Connections are kept alive between requests: they are closed as they fall idle, and all of them at the deadline. */
export function stopListening(server: ServerType, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const closeIdle = () => {
      if ('closeIdleConnections' in server) server.closeIdleConnections();
    };
    const cut = setTimeout(() => {
      if ('closeAllConnections' in server) server.closeAllConnections();
    }, timeoutMs);
    const sweep = setInterval(closeIdle, 20);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
    closeIdle();
  });
}

/** The base address that it is reached at. */
export function addressOf(server: ServerType, host: string): string {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('the server has no address');
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}
