import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { DataFiles } from '../../src/service/store/files.ts';
import { temporaryFolder } from '../support/files.ts';
import { door, ScriptedEngine } from '../support/scripted-engine.ts';
import { start } from './harness.ts';

test('a client that disconnects before its answer stops its generation, without a failure', async () => {
  const engine = new ScriptedEngine();
  const { service, log } = await start({ engine });
  const held = door();
  engine.hold = held.wait;
  const leave = new AbortController();
  const asking = fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key' },
    body: JSON.stringify({ n: 2, messages: [{ role: 'user', content: 'hi' }] }),
    signal: leave.signal,
  });
  await held.reached;
  const signal = engine.requests[0]?.signal;
  const stopped = new Promise((resolve) => signal?.addEventListener('abort', resolve));
  leave.abort();
  await expect(asking).rejects.toThrow();
  await stopped;
  await service.close();
  expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
});

test('an idle connection is kept longer than clients keep theirs, so that no call meets a closing one', async () => {
  const { service } = await start();
  const { headers } = await fetch(`${service.url}/v1/health`);
  expect(headers.get('keep-alive')).toBe('timeout=120');
});

test('a request whose body stops arriving gets a 408 and is closed', async () => {
  const { service, log } = await start({ receiveTimeoutMs: 50 });
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const head = ['POST /v1/preview/models HTTP/1.1', 'host: x', 'authorization: Bearer test-key'];
  socket.write(`${[...head, 'content-length: 100'].join('\r\n')}\r\n\r\n{"project"`);
  const closed = once(socket, 'close');
  const [answer] = await once(socket, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1.1 408/);
  await closed;
  await service.close();
  expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
});

test.runIf(process.platform === 'linux')('training data that is not read to its end is closed', async () => {
  const folder = await temporaryFolder();
  const files = await DataFiles.open(folder);
  const file = await files.createIncoming();
  await file.append(Buffer.from('line\n'.repeat(200_000)));
  await files.keepUpload('0'.repeat(64), file);
  for await (const { number } of files.uploadLines('0'.repeat(64))) if (number === 3) break;
  const openFiles = () =>
    readdirSync('/proc/self/fd').flatMap((descriptor) => {
      try {
        return [readlinkSync(`/proc/self/fd/${descriptor}`)];
      } catch {
        return [];
      }
    });
  await expect.poll(() => openFiles().filter((path) => path.startsWith(folder))).toEqual([]);
});
