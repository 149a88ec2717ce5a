import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { GenerateRequest, GenerationDelta } from '../../../src/engines/engine.ts';
import { cutStalledReader } from '../../../src/service/http/answering.ts';
import { startServer } from '../../support/http-server.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { RawClient, requestText } from './raw-client.ts';

const mebibyte = 1024 ** 2;
const path = '/v1/preview/uploads';
const cut = expect.objectContaining({ event: 'client_stalled' });

/** An engine whose replies exceed the system's buffers. */
class TalkativeEngine extends ScriptedEngine {
  left = Promise.withResolvers<void>();

  override async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void) {
    const tokens = Array(400).fill(65);
    const logprobs = tokens.map(() => -1);
    const topLogprobs = tokens.map(() => Array.from({ length: 20 }, (_, token) => ({ token, logprob: -2 })));
    onDelta?.({ tokens, logprobs, topLogprobs });
    const end = { finishReason: 'length', stop: null, cachedTokens: 0 } as const;
    return { ...(await super.generate(request)), tokens, logprobs, topLogprobs, ...end };
  }

  override async exportWeights() {
    const { left } = this;
    const chunks = (async function* () {
      try {
        for (let chunk = 0; chunk < 64; chunk++) yield new Uint8Array(mebibyte);
      } finally {
        left.resolve();
      }
    })();
    return { extension: '.safetensors', bytes: 64 * mebibyte, chunks };
  }
}

describe('a client that does not read its answer is disconnected', () => {
  const long = { max_tokens: 400, n: 60, logprobs: true, top_logprobs: 20, ignore_eos: true };

  test.each([true, false])('of a chat (streamed: %s), whose slot becomes free', async (stream) => {
    const engine = new TalkativeEngine();
    const { service, log, call } = await start({ engine, stallTimeoutMs: 200 });
    const client = new RawClient(service.url);
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], ...long, stream });
    await client.write(requestText({ path: '/v1/chat/completions', body }));
    await expect.poll(() => log).toContainEqual(cut);
    await expect
      .poll(async () => (await call('GET', '/v1/system-check')).body.inference_queue.in_hand)
      .toBe(0);
    client.read();
    await client.closed;
    expect(client.received).not.toContain('[DONE]');
    expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
  });

  test('of a download, which stops', async () => {
    const engine = new TalkativeEngine();
    const { service, log, createModel } = await start({ engine, stallTimeoutMs: 200 });
    const { id } = await createModel();
    const client = new RawClient(service.url);
    const file = `/v1/preview/models/${id}/checkpoints/0/download`;
    await client.write(requestText({ method: 'GET', path: file }));
    await engine.left.promise;
    expect(log).toContainEqual(cut);
  });

  test('even if it continues to send', async () => {
    const engine = new TalkativeEngine();
    const { service, log, createModel } = await start({ engine, stallTimeoutMs: 200 });
    const { id } = await createModel();
    const client = new RawClient(service.url);
    const file = `/v1/preview/models/${id}/checkpoints/0/download`;
    const ask = requestText({ method: 'GET', path: file });
    await client.write(ask);
    const sending = setInterval(() => client.socket.write(ask), 20);
    onTestFinished(() => clearInterval(sending));
    await engine.left.promise;
    expect(log).toContainEqual(cut);
  });

  test('but not one that reads slowly or waits for a slow answer', {
    tags: ['long'],
  }, async () => {
    const limitMs = 2000;
    let cuts = 0;
    const started = Promise.withResolvers<Socket>();
    // A write that ends only when all of it is accepted: until then, only its queue shows progress.
    const { url, close } = await startServer(async (incoming, outgoing) => {
      cutStalledReader(outgoing, limitMs, () => cuts++);
      await wait(limitMs * 1.5);
      expect(cuts).toBe(0);
      outgoing.end(Buffer.alloc(256 * mebibyte));
      started.resolve(incoming.socket);
    });
    onTestFinished(close);
    const client = new RawClient(url);
    await client.write(requestText({ method: 'GET', path }));
    const socket = await started.promise;
    for (let step = 0; step < 6; step++) {
      await wait(limitMs / 4);
      let received = 0;
      const count = (piece: Uint8Array) => {
        received += piece.byteLength;
        if (received > 16 * mebibyte) client.socket.pause();
      };
      client.socket.on('data', count);
      client.read();
      await expect.poll(() => received).toBeGreaterThan(16 * mebibyte);
      client.socket.off('data', count);
    }
    expect(cuts).toBe(0);
    expect(socket.writableLength).toBeGreaterThan(mebibyte);
    await expect.poll(() => cuts, { timeout: 10 * limitMs }).toBe(1);
    expect(socket.destroyed).toBe(true);
  });
});

describe('a client that stops within its body', () => {
  test.each([
    ['/v1/chat/completions', 100],
    [path, 32 * mebibyte],
  ])('gets a 408: %s', async (where, announced) => {
    const { service, log, call } = await start({ stallTimeoutMs: 50 });
    const client = new RawClient(service.url).read();
    await client.write(`${requestText({ path: where, body: announced })}{"messages":[`);
    await client.ended;
    expect([client.status, client.header('connection')]).toEqual([408, 'close']);
    expect(client.received).toContain('stallTimeoutMs');
    expect(log).toContainEqual(expect.objectContaining({ event: 'request', path: where, status: 408 }));
    expect((await call('GET', '/v1/system-check')).body.inference_queue.in_hand).toBe(0);
  });

  test.each([0, 1.5, Number.NaN, 2 ** 31])('needs a valid stallTimeoutMs: not %d', async (stallTimeoutMs) => {
    const says = `stallTimeoutMs is ${stallTimeoutMs}. Pass whole milliseconds`;
    await expect(start({ stallTimeoutMs })).rejects.toThrow(says);
  });

  test('counts with the bytes it has sent, not with those it has declared', async () => {
    const bodyBytes = 8 * mebibyte;
    const bodyLimits = { chat: mebibyte, preview: bodyBytes };
    const { service, log, raw } = await start({ limits: { bodyBytes }, bodyLimits });
    const stalled: RawClient[] = [];
    for (let count = 0; count < 4; count++) {
      const client = new RawClient(service.url).read();
      await client.write(`${requestText({ path, body: 7 * mebibyte })}{`);
      stalled.push(client);
    }
    const content = 'a'.repeat(mebibyte);
    const messages = [
      { role: 'user', content },
      { role: 'assistant', content: 'b' },
    ];
    const body = `${JSON.stringify({ messages })}\n`.repeat(5);
    expect((await raw('POST', path, body)).status).toBe(200);
    for (const client of stalled) client.socket.destroy();
    const brokenOff = () => log.filter((entry) => JSON.stringify(entry).includes('"status":400'));
    await expect.poll(brokenOff).toHaveLength(4);
  });
});
