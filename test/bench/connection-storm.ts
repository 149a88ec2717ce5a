// Measures what several listeners on one port gain when 2,000 clients connect at once: Node accepts one connection per
// listener and tick of the event loop. `npx tsx test/bench/connection-storm.ts` prints the time to a client's answer.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const clients = 2000;

interface Outcome {
  answered: number;
  failed: number;
  /** Milliseconds until half of the clients, and until all, had their answer. */
  medianMs: number;
  lastMs: number;
}

/** Connects all clients at once, each for one request. */
async function storm(port: number): Promise<Outcome> {
  const began = performance.now();
  const times: number[] = [];
  let failed = 0;
  const client = () =>
    new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.on('connect', () => socket.write('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'));
      socket.once('data', () => {
        times.push(performance.now() - began);
        socket.destroy();
        resolve();
      });
      socket.on('error', () => {
        failed++;
        resolve();
      });
    });
  await Promise.all(Array.from({ length: clients }, client));
  times.sort((a, b) => a - b);
  return {
    ...{ answered: times.length, failed },
    ...{ medianMs: Math.round(times[times.length >> 1] ?? 0), lastMs: Math.round(times.at(-1) ?? 0) },
  };
}

/** A server whose event loop works for `tickMs` in every tick, as under load. */
async function serve(listeners: number, tickMs: number): Promise<Outcome> {
  let port = 0;
  const servers = [];
  for (let count = 0; count < listeners; count++) {
    const server = createServer((_request, response) => response.end('ok'));
    server.listen({ port, host: '127.0.0.1', backlog: 16_384, ...(listeners > 1 && { reusePort: true }) });
    await once(server, 'listening');
    const address = server.address();
    if (typeof address === 'object' && address !== null) port = address.port;
    servers.push(server);
  }
  let isBusy = tickMs > 0;
  const work = () => {
    for (const end = performance.now() + tickMs; performance.now() < end; );
    if (isBusy) setImmediate(work);
  };
  if (isBusy) work();
  const worker = new Worker(new URL(import.meta.url), { workerData: port });
  const [outcome]: [Outcome] = await Promise.race([
    once(worker, 'message').then(([message]): [Outcome] => [message]),
    once(worker, 'error').then(([error]) => Promise.reject(error)),
  ]);
  isBusy = false;
  for (const server of servers) server.close();
  return outcome;
}

if (isMainThread)
  for (const tickMs of [0, 5, 20])
    for (const listeners of [1, 16])
      console.log(
        `ticks of ${tickMs} ms, listeners: ${listeners}`,
        JSON.stringify(await serve(listeners, tickMs)),
      );
else parentPort?.postMessage(await storm(Number(workerData)));
