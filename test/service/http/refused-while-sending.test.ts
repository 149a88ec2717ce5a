import { describe, expect, onTestFinished, test } from 'vitest';
import { Lingering } from '../../../src/service/http/answering.ts';
import { startServer } from '../../support/http-server.ts';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { RawClient, requestText } from './raw-client.ts';

const mebibyte = 1024 ** 2;
const piece = Buffer.alloc(mebibyte, ' ');
const path = '/v1/preview/uploads';

describe('a client that sends everything before it reads', () => {
  test.each<[status: number, key: string, announced: number]>([
    [401, 'wrong', 24],
    [413, 'test-key', 65],
    [429, 'test-key', 24],
  ])('gets the %d that was decided before its body', async (status, key, announced) => {
    const limits = { bodyBytes: 64 * mebibyte };
    const bodyLimits = { chat: 64 * mebibyte, preview: 64 * mebibyte };
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    onTestFinished(held.open);
    const { service, log, raw } = await start({ engine, limits, bodyLimits });
    if (status === 429) {
      const body = `{"messages":[{"role":"user","content":"hi"}]${' '.repeat(48 * mebibyte)}}`;
      raw('POST', '/v1/chat/completions', body).catch(() => {});
      await held.reached;
    }
    const client = new RawClient(service.url);
    await client.write(requestText({ path, key, body: announced * mebibyte }));
    await expect.poll(() => log).toContainEqual(expect.objectContaining({ event: 'request', path, status }));
    for (let sent = 0; sent < announced; sent++) await client.write(piece);
    client.read();
    await client.ended;
    expect(client.status).toBe(status);
    expect(client.header('connection')).toBe('close');
    expect(client.header('retry-after')).toEqual(status === 429 ? expect.stringMatching(/^\d+$/) : null);
    client.socket.end();
    expect(await client.closed).toBe(null);
  });

  test('gets it too if it sends chunks of which some were read', async () => {
    const { service } = await start({ bodyLimits: { chat: mebibyte, preview: 4 * mebibyte } });
    const client = new RawClient(service.url);
    await client.write(requestText({ path, headers: { 'transfer-encoding': 'chunked' } }));
    for (let sent = 0; sent < 12; sent++) {
      await client.write('100000\r\n');
      await client.write(piece);
      await client.write('\r\n');
    }
    await client.write('0\r\n\r\n');
    await client.read().ended;
    expect(client.status).toBe(413);
  });

  test('keeps its connection if the rest is short', async () => {
    const { service, log } = await start();
    const client = new RawClient(service.url).read();
    await client.write(requestText({ path, key: 'wrong', body: 2000 }));
    await expect.poll(() => client.status).toBe(401);
    await client.write('a'.repeat(2000));
    client.socket.end(requestText({ method: 'GET', path: '/v1/models' }));
    await client.closed;
    expect(client.received).toContain('HTTP/1.1 200');
    expect(log.filter((entry) => JSON.stringify(entry).includes('"request"'))).toHaveLength(2);
  });

  test('does not delay the stop of the service', async () => {
    const { service } = await start({ closeTimeoutMs: 60_000 });
    const client = new RawClient(service.url).read();
    await client.write(requestText({ path, key: 'wrong', body: 24 * mebibyte }));
    await expect.poll(() => client.status).toBe(401);
    await service.close();
    client.socket.end();
    await client.closed;
  });
});

test('discarding the rest of a body ends in time', async () => {
  const lingering = new Lingering(50);
  const { url, close } = await startServer((incoming, outgoing) => {
    lingering.begin(incoming);
    outgoing.writeHead(401, { connection: 'close' }).end();
  });
  onTestFinished(close);
  const client = new RawClient(url).read();
  await client.write(requestText({ path, body: 2 ** 40 }));
  await client.ended;
  expect(client.status).toBe(401);
  const sending = setInterval(() => client.socket.write('more'), 10);
  onTestFinished(() => clearInterval(sending));
  await client.closed;
});
