import { once } from 'node:events';
import { connect } from 'node:net';
import { createClient } from 'martingale/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { KeyStore } from '../../src/service/index.ts';
import { door, ScriptedEngine } from '../support/scripted-engine.ts';
import { group, start, trajectory } from './harness.ts';

/** A service whose engine holds its calls until the gate is opened. */
async function busy(options: Parameters<typeof start>[0] = {}) {
  const engine = new ScriptedEngine();
  const gate = door();
  engine.hold = gate.wait;
  onTestFinished(gate.open);
  return { ...(await start({ ...options, engine })), engine, gate };
}

/** Resolves once the engine has received this number of calls. */
async function engineCalls(engine: ScriptedEngine, count: number): Promise<void> {
  await expect.poll(() => engine.requests.length).toBe(count);
}

const retryAfter = (headers: Headers) => Number(headers.get('retry-after'));

describe('chat requests', () => {
  test('are refused beyond the limit in the form of chat errors, and accepted once a slot is free', async () => {
    const { call, chat, engine, gate } = await busy({ limits: { replies: 2 } });
    const held = [chat({})];
    await engineCalls(engine, 1);
    held.push(chat({}));
    await engineCalls(engine, 2);
    const { status, headers, body } = await chat({});
    expect(status).toBe(429);
    expect(retryAfter(headers)).toBeGreaterThanOrEqual(1);
    expect(retryAfter(headers)).toBeLessThanOrEqual(60);
    expect(body.error).toMatchObject({ type: 'rate_limit_error', code: 'too_many_requests', param: null });
    expect(body.error.message).toContain('limits.replies');
    expect(body.detail).toBe(body.error.message);
    expect(engine.requests).toHaveLength(2);
    const check = await call('GET', '/v1/system-check');
    expect(check.body.inference_queue).toMatchObject({ success: true, in_hand: 2, refused: 1 });
    expect(check.body.inference_queue.oldest_ms).toBeGreaterThan(0);
    gate.open();
    for (const answer of await Promise.all(held)) expect(answer.status).toBe(200);
    expect((await chat({})).status).toBe(200);
  });

  test('count once for each requested choice', async () => {
    const { chat, engine, gate } = await busy({ limits: { replies: 4 } });
    const held = chat({ n: 3 });
    await engineCalls(engine, 3);
    expect((await chat({ n: 2 })).status).toBe(429);
    expect((await chat({ n: 5 })).body.error.code).toBe('more_than_the_limit');
    gate.open();
    expect((await held).status).toBe(200);
    expect((await chat({ n: 4 })).status).toBe(200);
  });

  test('free their slots however they end', async () => {
    const { chat, raw, call, engine, service } = await start({ limits: { replies: 1 } });
    const failing = async () => {
      engine.failGeneration = new Error('broken');
      const { status } = await chat({});
      engine.failGeneration = null;
      return status;
    };
    expect((await chat({ temperature: -1 })).status).toBe(422);
    expect((await chat({ model: 'local/no/such' })).status).toBe(404);
    expect((await call('POST', '/v1/chat/completions', '{')).status).toBe(422);
    expect(await failing()).toBe(500);
    const messages = [{ role: 'user', content: 'hi' }];
    const streamed = await raw('POST', '/v1/chat/completions', { messages, stream: true });
    expect(await streamed.text()).toContain('[DONE]');
    // A client that disconnects before the end of its answer, streamed or not.
    for (const stream of [true, false]) {
      const gate = door();
      engine.hold = gate.wait;
      const leaving = new AbortController();
      const left = fetch(`${service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.apiKey}` },
        body: JSON.stringify({ messages, stream }),
        signal: leaving.signal,
      }).then((answer) => answer.text());
      await gate.reached;
      leaving.abort();
      await expect(left).rejects.toThrow('abort');
      engine.hold = null;
      await expect.poll(async () => (await chat({})).status).toBe(200);
    }
  });

  test('are refused beyond the limit of bytes before they are read, declared or not', async () => {
    const limits = { bodyBytes: 2000 };
    const bodyLimits = { chat: 2000, preview: 2000 };
    const { chat, raw, engine, gate } = await busy({ limits, bodyLimits });
    const messages = (length: number) => [{ role: 'user', content: 'x'.repeat(length) }];
    const held = chat({ messages: messages(400), max_tokens: 5 });
    await engineCalls(engine, 1);
    const declared = await chat({ messages: messages(1600) });
    expect(declared.status).toBe(429);
    expect(declared.body.error.code).toBe('too_many_bytes');
    expect(declared.body.error.message).toContain('limits.bodyBytes');
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode('x'.repeat(900)));
      },
    });
    const url = (await raw('GET', '/v1/health')).url.replace('health', 'chat/completions');
    const chunked = await fetch(url, {
      ...{ method: 'POST', body, duplex: 'half' },
      headers: { authorization: 'Bearer test-key' },
    } as RequestInit);
    expect(chunked.status).toBe(429);
    gate.open();
    expect((await held).status).toBe(200);
    expect((await chat({ messages: messages(300) })).status).toBe(200);
  });

  test('of another key are accepted when one key has used its share', async () => {
    const { service, dataFolder, chat, engine, gate } = await busy({ limits: { replies: 34 } });
    const keys = await KeyStore.open(dataFolder);
    const { key } = keys.create('another');
    keys.close();
    // The network decides which of them arrive first.
    const statuses: number[] = [];
    for (let calls = 0; calls < 40; calls++) chat({}).then(({ status }) => statuses.push(status));
    await engineCalls(engine, 32);
    await expect.poll(() => statuses.length).toBe(8);
    expect(new Set(statuses)).toEqual(new Set([429]));
    const other = fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
    });
    await engineCalls(engine, 33);
    gate.open();
    expect((await other).status).toBe(200);
  });

  test('all succeed with a client that follows Retry-After', async () => {
    const { service, engine } = await start({ limits: { replies: 17 } });
    engine.hold = () => new Promise((resolve) => setTimeout(resolve, 20));
    const client = createClient({
      ...{ baseUrl: service.url, apiKey: service.apiKey, backoffMs: 100, retries: 20 },
    });
    onTestFinished(() => client.close());
    const create = () =>
      client.chat.completions.create({ messages: [{ role: 'user', content: 'hi' }], model: 'scripted-tiny' });
    const answers = await Promise.all(Array.from({ length: 60 }, create));
    expect(answers.every(({ choices }) => choices[0]?.message.content === 'hello')).toBe(true);
  });
});

describe('training jobs', () => {
  test('wait in a queue that is limited in total and for each model', async () => {
    const { call, createModel, gate } = await busy({ limits: { jobs: 3, jobsOfModel: 2 } });
    const models = [
      await createModel(),
      await createModel({ name: 'other' }),
      await createModel({ name: 'third' }),
    ];
    const submit = (index: number, headers: Record<string, string> = {}) =>
      call(
        'POST',
        '/v1/preview/training-jobs',
        {
          model_id: models[index].id,
          trajectory_groups: [group(trajectory(1, [65, 258]), trajectory(0, [66, 258]))],
        },
        headers,
      );
    const first = await submit(0, { 'idempotency-key': 'first' });
    expect([first.status, (await submit(0)).status]).toEqual([200, 200]);
    const ofModel = await submit(0, { 'idempotency-key': 'later' });
    expect(ofModel.status).toBe(429);
    expect(ofModel.body.detail).toContain('limits.jobsOfModel');
    expect(retryAfter(ofModel.headers)).toBe(60);
    expect((await submit(1)).status).toBe(200);
    const ofAll = await submit(2);
    expect(ofAll.status).toBe(429);
    expect(ofAll.body.detail).toContain('limits.jobs)');
    // A repeat of an accepted request returns its answer.
    expect((await submit(0, { 'idempotency-key': 'first' })).body).toEqual(first.body);
    await call('POST', `/v1/preview/training-jobs/${first.body.id}/cancel`);
    expect((await submit(0, { 'idempotency-key': 'later' })).status).toBe(200);
    gate.open();
  });
});

describe('training jobs of many', () => {
  const jobs = '/v1/preview/training-jobs';
  const jobOf = (model: { id: string }) => ({
    model_id: model.id,
    trajectory_groups: [group(trajectory(1, [65, 258]), trajectory(0, [66, 258]))],
  });

  test('keys are accepted when one key has used its share', async () => {
    const { service, dataFolder, call, createModel, gate } = await busy({ limits: { jobs: 17 } });
    const keys = await KeyStore.open(dataFolder);
    const { key } = keys.create('another');
    keys.close();
    const model = await createModel();
    for (let index = 0; index < 16; index++)
      expect((await call('POST', jobs, jobOf(model))).status).toBe(200);
    const refused = await call('POST', jobs, jobOf(await createModel({ name: 'other' })));
    expect(refused.status).toBe(429);
    expect(refused.body.detail).toContain('The key has 16 unfinished training jobs');
    const other = await fetch(`${service.url}${jobs}`, {
      ...{ method: 'POST', headers: { authorization: `Bearer ${key}` } },
      body: JSON.stringify(jobOf(model)),
    });
    expect(other.status).toBe(200);
    gate.open();
  });

  test('concurrent callers never exceed the limit', async () => {
    const { call, createModel, gate } = await busy({ limits: { jobs: 5 } });
    const model = await createModel();
    const answers = await Promise.all(Array.from({ length: 30 }, () => call('POST', jobs, jobOf(model))));
    const accepted = answers.filter(({ status }) => status === 200);
    expect(accepted).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(25);
    // Requests that were refused as invalid have freed their slots, too.
    await call('POST', `${jobs}/${accepted[0]?.body.id}/cancel`);
    const unknownToken = { trajectory_groups: [group(trajectory(1, [9999]), trajectory(0, [66]))] };
    expect((await call('POST', jobs, { ...jobOf(model), ...unknownToken })).status).toBe(422);
    expect((await call('POST', jobs, jobOf(model))).status).toBe(200);
    gate.open();
  });
});

describe('streams of events', () => {
  test('are refused beyond the limit, and accepted again when one ends', async () => {
    const { call, raw, createModel, gate } = await busy({ limits: { eventStreams: 1 } });
    const { id } = await createModel();
    const { body } = await call('POST', '/v1/preview/training-jobs', {
      ...{ model_id: id, trajectory_groups: [group(trajectory(1, [65, 258]), trajectory(0, [66, 258]))] },
    });
    const follow = () =>
      raw('GET', `/v1/preview/training-jobs/${body.id}/events`, undefined, { accept: 'text/event-stream' });
    const followed = await follow();
    const refused = await follow();
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain('limits.eventStreams');
    gate.open();
    expect(await followed.text()).toContain('training_ended');
    expect((await follow()).status).toBe(200);
  });
});

describe('connections', () => {
  test('beyond the limit are answered with the reason and closed', async () => {
    const { service } = await start({ limits: { connections: 1 } });
    const { port } = new URL(service.url);
    const ask = async () => {
      const socket = connect(Number(port), '127.0.0.1');
      onTestFinished(() => void socket.destroy());
      socket.setEncoding('utf8');
      socket.write('GET /v1/health HTTP/1.1\r\nhost: a\r\nauthorization: Bearer test-key\r\n\r\n');
      const [answer] = await once(socket, 'data');
      return { socket, answer: String(answer) };
    };
    const first = await ask();
    expect(first.answer).toContain('200 OK');
    const second = await ask();
    expect(second.answer).toContain('429 Too Many Requests');
    expect(second.answer.toLowerCase()).toContain('connection: close');
    expect(second.answer.toLowerCase()).toContain('retry-after: ');
    expect(second.answer).toContain('limits.connections');
    await once(second.socket, 'close');
    first.socket.destroy();
    await once(first.socket, 'close');
    await expect.poll(async () => (await ask()).answer, { interval: 5 }).toContain('200 OK');
  });
});

describe('limits', () => {
  test.each([
    [{ replies: 0 }, 'limits.replies is 0. It must be a positive integer.'],
    [{ jobs: 1.5 }, 'limits.jobs is 1.5. It must be a positive integer.'],
    [{ bodyBytes: 5 }, 'limits.bodyBytes is 5. It must hold the largest body, 268435456 bytes'],
  ])('that are invalid are refused at the start: %j', async (limits, message) => {
    await expect(start({ limits })).rejects.toThrow(message);
  });
});
