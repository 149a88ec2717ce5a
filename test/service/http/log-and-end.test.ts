import { describe, expect, test, vi } from 'vitest';
import { JobEvents } from '../../../src/service/jobs/job-events.ts';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { group, start, trajectory } from '../harness.ts';
import { RawClient, requestText } from './raw-client.ts';

const chatPath = '/v1/chat/completions';
const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] });

describe('the log', () => {
  test('has a line for a chat whose client disconnected before its answer', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const { service, log } = await start({ engine });
    const client = new RawClient(service.url);
    await client.write(requestText({ path: chatPath, body, headers: { 'x-request-id': 'left' } }));
    await held.reached;
    client.socket.destroy();
    const line = { level: 'info', event: 'request', request: 'left', path: chatPath, status: 499 };
    await expect.poll(() => log).toContainEqual(expect.objectContaining(line));
    expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
  });

  test('is the only report of a failed download: neither the client nor the error output has it', async () => {
    const engine = new ScriptedEngine();
    engine.exportWeights = async () => ({
      extension: '.safetensors',
      bytes: 100_000,
      chunks: (async function* () {
        yield Buffer.alloc(50_000, 'A');
        throw new Error('EIO: /data/models/weights');
      })(),
    });
    const { service, log, createModel } = await start({ engine });
    const { id } = await createModel();
    const printed = [vi.spyOn(console, 'error'), vi.spyOn(console, 'info')];
    const client = new RawClient(service.url).read();
    const path = `/v1/preview/models/${id}/checkpoints/0/download`;
    await client.write(requestText({ method: 'GET', path, headers: { 'x-request-id': 'broken' } }));
    await client.ended;
    expect(client.status).toBe(200);
    expect(client.received).not.toContain('EIO');
    const failed = { event: 'download_failed', request: 'broken', error: 'EIO: /data/models/weights' };
    expect(log).toContainEqual(expect.objectContaining(failed));
    for (const print of printed) expect(print).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });

  test('is the only report of a failed stream of events', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const { service, log, createModel, call } = await start({ engine });
    const { id } = await createModel();
    const trajectory_groups = [group(trajectory(1, [1]), trajectory(0, [2]))];
    const { body: job } = await call('POST', '/v1/preview/training-jobs', {
      model_id: id,
      trajectory_groups,
    });
    await held.reached;
    const printed = vi.spyOn(console, 'error');
    vi.spyOn(JobEvents.prototype, 'follow').mockImplementation(async function* () {
      yield [];
      throw new Error('disk I/O error');
    });
    const client = new RawClient(service.url).read();
    const path = `/v1/preview/training-jobs/${job.id}/events`;
    await client.write(requestText({ method: 'GET', path, headers: { accept: 'text/event-stream' } }));
    await client.ended;
    held.open();
    expect(log).toContainEqual(
      expect.objectContaining({ event: 'stream_failed', path, error: 'disk I/O error' }),
    );
    expect(printed).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });
});

describe('the stop of the service', () => {
  test('answers waiting chats with a 503, streamed or not, and closes their connections', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const { service } = await start({ engine, closeTimeoutMs: 400 });
    const ask = async (stream: boolean) => {
      const client = new RawClient(service.url).read();
      const streamed = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], stream });
      await client.write(requestText({ path: chatPath, body: streamed }));
      return client;
    };
    const whole = await ask(false);
    const stream = await ask(true);
    await expect.poll(() => engine.requests.length).toBe(2);
    await service.close();
    for (const client of [whole, stream]) {
      await client.ended;
      expect(client.received).toContain('"code":"shutting_down"');
    }
    expect([whole.status, whole.header('connection')]).toEqual([503, 'close']);
    expect(whole.header('retry-after')).toBe('1');
  });

  test('answers a client that is sending a body with a 503', async () => {
    const { service, call } = await start({ closeTimeoutMs: 400 });
    const clients: RawClient[] = [];
    for (const path of [chatPath, '/v1/preview/uploads']) {
      const client = new RawClient(service.url).read();
      await client.write(`${requestText({ path, body: 10_000_000 })}{`);
      clients.push(client);
    }
    await expect
      .poll(async () => (await call('GET', '/v1/system-check')).body.inference_queue.in_hand)
      .toBe(1);
    await service.close();
    for (const client of clients) {
      await client.ended;
      expect([client.status, client.header('connection')]).toEqual([503, 'close']);
    }
  });

  test('completes a chat that ends in time', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const { service, chat } = await start({ engine, closeTimeoutMs: 30_000 });
    const answer = chat({});
    await held.reached;
    const closed = service.close();
    held.open();
    expect((await answer).status).toBe(200);
    await closed;
  });
});
