import { describe, expect, test } from 'vitest';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { group, start, trajectory } from '../harness.ts';
import { RawClient, type RawRequest, requestText } from './raw-client.ts';

/** Sends a request, closes the sending side at once, and reads until the service closes its own. */
async function sendAndClose(url: string, request: RawRequest): Promise<RawClient> {
  const client = new RawClient(url).read();
  client.socket.end(requestText(request));
  await client.ended;
  return client;
}

const chatBody = (fields: object = {}) =>
  JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], ...fields });

describe('a client that closes its side of the connection after its request', () => {
  test('gets the answer to its request, and the connection is closed', async () => {
    const { service, createModel } = await start();
    const { id } = await createModel();
    const trajectory_groups = [group(trajectory(1, [1, 2]), trajectory(0, [3]))];
    const preview = '/v1/preview';
    const upload = '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}\n';
    for (const [path, body, says] of [
      [`${preview}/models/${id}/log`, { split: 'train', trajectory_groups }, '"num_trajectories":2'],
      [`${preview}/training-jobs`, { model_id: id, trajectory_groups }, '{"id":"'],
      [
        `${preview}/models`,
        { project: 'desk', name: 'other', base_model: 'scripted-tiny' },
        '"name":"other"',
      ],
      [`${preview}/uploads`, upload, '"url":"upload:'],
    ] as const) {
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const client = await sendAndClose(service.url, { path, body: text });
      expect([path, client.status]).toEqual([path, 200]);
      expect(client.received).toContain(says);
      expect(await client.closed).toBe(null);
    }
  });

  test('gets as many answers as it sent requests', async () => {
    const { service } = await start();
    const client = new RawClient(service.url).read();
    const ask = requestText({ method: 'GET', path: '/v1/models' });
    client.socket.end(ask + ask);
    await client.ended;
    expect(client.received.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(await client.closed).toBe(null);
  });

  test.each([true, false])(
    'is disconnected for a chat (streamed: %s), whose slot becomes free',
    async (stream) => {
      const engine = new ScriptedEngine();
      const held = door();
      engine.hold = held.wait;
      const { service, chat, log } = await start({ engine, limits: { replies: 1 } });
      const client = new RawClient(service.url).read();
      await client.write(requestText({ path: '/v1/chat/completions', body: chatBody({ stream }) }));
      await held.reached;
      const signal = engine.requests[0]?.signal;
      const stopped = new Promise((resolve) => signal?.addEventListener('abort', resolve));
      client.socket.end();
      await stopped;
      await client.closed;
      expect(client.received).not.toContain('"content":"hello"');
      engine.hold = null;
      expect((await chat({})).status).toBe(200);
      expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
    },
  );

  test('is disconnected if it closed its side before the chat began', async () => {
    const engine = new ScriptedEngine();
    engine.hold = () => new Promise(() => {});
    const { service } = await start({ engine });
    const client = await sendAndClose(service.url, { path: '/v1/chat/completions', body: chatBody() });
    await client.closed;
    expect(client.received).toBe('');
  });

  test('is disconnected for a stream of events, whose slot becomes free', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const { service, createModel, call, raw } = await start({ engine, limits: { eventStreams: 1 } });
    const { id } = await createModel();
    const trajectory_groups = [group(trajectory(1, [1]), trajectory(0, [2]))];
    const { body: job } = await call('POST', '/v1/preview/training-jobs', {
      model_id: id,
      trajectory_groups,
    });
    await held.reached;
    const path = `/v1/preview/training-jobs/${job.id}/events`;
    const headers = { accept: 'text/event-stream' };
    const client = new RawClient(service.url).read();
    await client.write(requestText({ method: 'GET', path, headers }));
    await expect.poll(() => client.status).toBe(200);
    expect((await raw('GET', path, undefined, headers)).status).toBe(429);
    client.socket.end();
    await client.closed;
    await expect
      .poll(async () => {
        const again = await raw('GET', path, undefined, headers);
        await again.body?.cancel();
        return again.status;
      })
      .toBe(200);
    held.open();
  });

  test('leaves no pipelined request behind', async () => {
    const engine = new ScriptedEngine();
    engine.hold = () => new Promise(() => {});
    const { service, call, log } = await start({ engine });
    const client = new RawClient(service.url).read();
    const chats = [true, true, false].map((stream) =>
      requestText({ path: '/v1/chat/completions', body: chatBody({ stream }) }),
    );
    await client.write(chats.join(''));
    await expect.poll(() => engine.requests.length).toBe(3);
    client.socket.resetAndDestroy();
    const usedSlots = async () => (await call('GET', '/v1/system-check')).body.inference_queue.in_hand;
    await expect.poll(usedSlots).toBe(0);
    expect(log).not.toContainEqual(expect.objectContaining({ level: 'error' }));
  });

  test('is disconnected at once between requests, and before the first', async () => {
    const { service } = await start();
    const idle = new RawClient(service.url).read();
    await idle.write(requestText({ method: 'GET', path: '/v1/models' }));
    await expect.poll(() => idle.status).toBe(200);
    const silent = new RawClient(service.url).read();
    for (const client of [idle, silent]) {
      client.socket.end();
      expect(await client.closed).toBe(null);
    }
  });

  test('is refused within a body', async () => {
    const { service } = await start();
    const client = new RawClient(service.url).read();
    client.socket.end(`${requestText({ path: '/v1/chat/completions', body: 100 })}{"messages"`);
    await client.closed;
    expect(client.status).toBe(400);
  });
});
