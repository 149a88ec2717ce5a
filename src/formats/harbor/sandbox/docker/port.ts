import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import { httpUrl, startListening } from '../../../../util/http-server.ts';

/** A script for `bash`: sends its input to a port of its machine, and writes the answers to its output. */
const connectTo = (port: number): string =>
  `exec 3<>/dev/tcp/localhost/${port} 4<&0 || exit 1; cat <&3 & out=$!; { cat; kill $out; } <&4 >&3 2>&3 & wait $out`;

/**
 * Leads connections to a port of this machine into a container, each through a command of its own there: this works
 * without a network, in every kind of container service, and from another machine than theirs.
 *
 * @param start Starts a command of `bash` in the container.
 * @returns The URL, until the signal aborts.
 * @throws the signal's reason
 */
export async function exposePort(
  port: number,
  start: (command: string) => ChildProcessWithoutNullStreams,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const child = start(connectTo(port));
    const end = () => {
      sockets.delete(socket);
      socket.destroy();
      child.kill();
    };
    sockets.add(socket);
    socket.pipe(child.stdin);
    child.stdout.pipe(socket);
    child.stderr.resume();
    for (const stream of [socket, child.stdin, child.stdout, child]) stream.on('error', end);
    socket.on('close', end);
  });
  const listensOn = await startListening(server, { port: 0, host: '127.0.0.1' });
  server.unref();
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  signal.addEventListener('abort', close, { once: true });
  return httpUrl('127.0.0.1', listensOn);
}
