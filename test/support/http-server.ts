import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';

/** Serves HTTP. Default: on a free port of this machine. */
export async function startServer(listener?: RequestListener, { port = 0, host = '127.0.0.1' } = {}) {
  const server = createServer(listener).listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('The server has no port.');
  return {
    server,
    port: address.port,
    url: `http://${host}:${address.port}`,
    /** Closes the server and its connections. */
    close: async (): Promise<void> => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The URL of a port at which nothing listens. */
export async function unusedUrl(): Promise<string> {
  const server = await startServer();
  await server.close();
  return server.url;
}
