import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A proxy to the service that can fall silent: connections stay open, but nothing passes. */
export async function openLine(url: string) {
  const { port } = new URL(url);
  let silent = false;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(port), '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes) => silent || to.write(bytes));
      from.on('close', () => to.destroy());
      from.on('error', () => to.destroy());
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('No address.');
  return {
    url: `http://127.0.0.1:${address.port}`,
    silence: (value: boolean) => {
      silent = value;
      if (!value) for (const socket of sockets) socket.destroy();
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
