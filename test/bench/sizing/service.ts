// A service with a timed engine, in its own process: `service.ts <JSON of SetTimes>`. It sends its address, and then its
// figures, or its CPU time, when it is asked for them. A message with times sets those of the engine.

import { subscribe } from 'node:diagnostics_channel';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startService } from '../../../src/service/index.ts';
import { cpuTimes, diskBytes, heapBytes } from './figures.ts';
import { type SetTimes, TimedEngine } from './timed-engine.ts';

export type CallKind = 'chat' | 'group' | 'job' | 'log' | 'other';

/** Bytes of sockets, with the heads of HTTP. */
export interface WireBytes {
  received: number;
  sent: number;
}

/** Sums since the start of the process. */
export interface ServiceFigures {
  /** Heap after a garbage collection, with buffers outside it, in bytes. */
  heapBytes: number;
  diskBytes: number;
  wire: Record<CallKind, WireBytes>;
}

function kindOf({ method = '', url = '' }: IncomingMessage): CallKind {
  if (method === 'POST' && url.endsWith('/chat/completions')) return 'chat';
  if (method === 'POST' && url.endsWith('/groups')) return 'group';
  if (method === 'POST' && url.endsWith('/training-jobs')) return 'job';
  return method === 'POST' && url.endsWith('/log') ? 'log' : 'other';
}

const none = (): WireBytes => ({ received: 0, sent: 0 });
const wire: Record<CallKind, WireBytes> = {
  chat: none(),
  group: none(),
  job: none(),
  log: none(),
  other: none(),
};
const counted = new WeakMap<Socket, WireBytes>();

/** A connection carries one call at a time, so what it carried since the end of the last one is of this call. */
function count(socket: Socket, kind: CallKind): void {
  const before = counted.get(socket) ?? none();
  const [received, sent] = [socket.bytesRead, socket.bytesWritten];
  wire[kind].received += received - before.received;
  wire[kind].sent += sent - before.sent;
  counted.set(socket, { received, sent });
}

async function serve(times: SetTimes): Promise<void> {
  subscribe('http.server.request.start', (message) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    const { socket } = request;
    response.once('close', () => count(socket, kindOf(request)));
  });
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-sizing-'));
  const engine = new TimedEngine(times);
  const service = await startService({ engine, dataFolder });
  process.on('message', async (message: SetTimes | 'figures' | 'cpu') => {
    if (message === 'cpu') return void process.send?.(cpuTimes());
    if (message !== 'figures') engine.set(message);
    const figures: ServiceFigures = {
      heapBytes: heapBytes(),
      diskBytes: await diskBytes(dataFolder),
      wire,
    };
    process.send?.(figures);
  });
  process.once('disconnect', async () => {
    await service.close();
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  });
  process.send?.({ url: service.url, apiKey: service.apiKey });
}

await serve(JSON.parse(process.argv[2] ?? ''));
