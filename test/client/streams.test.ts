import { describe, expect, it } from 'vitest';
import type { FollowOptions, ReportedTrainingEvent } from '../../src/client/index.ts';
import { type Answerer, eventStream, json, serve, uuid } from './server.ts';

const job = uuid(100);
const started = { id: uuid(1), type: 'training_started', data: { num_sequences: 2 } };
const step = (n: number) => ({ id: uuid(1 + n), type: 'gradient_step', data: { loss: n } });
const ended = { id: uuid(9), type: 'training_ended', data: {} };
const failed = { id: uuid(9), type: 'training_failed', data: { error_message: 'cancelled' } };

const sent = (event: { id: string; type: string }) =>
  `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}`;
const page = (data: { id: string }[], has_more = false) =>
  json({ object: 'list', data, first_id: data[0]?.id ?? '', last_id: data.at(-1)?.id ?? '', has_more });

async function follow(answerers: Answerer[], options: FollowOptions = {}, retries = 5) {
  const { connect, received } = await serve(...answerers);
  const client = connect({ retries });
  const events: ReportedTrainingEvent[] = [];
  const following = async () => {
    for await (const event of client.trainingJobs.follow(job, { pollIntervalMs: 0, ...options })) {
      events.push(event);
    }
  };
  const error = await following().catch((reason: unknown) => reason);
  return { events, received, error };
}

describe('following a job', () => {
  it('reads the event stream to its last event and sends no other request', async () => {
    const { events, received, error } = await follow([
      eventStream([sent(started), sent(step(1)), sent(step(2)), sent(ended)], 'open'),
    ]);
    expect(error).toBeUndefined();
    expect(events).toEqual([started, step(1), step(2), ended]);
    expect(received).toHaveLength(1);
    expect(received[0]?.headers.accept).toContain('text/event-stream');
    expect(received[0]?.headers['last-event-id']).toBeUndefined();
  });

  it('ends with an event for the failure', async () => {
    const { events, error } = await follow([eventStream([sent(started), sent(failed)])]);
    expect(error).toBeUndefined();
    expect(events).toEqual([started, failed]);
  });

  it.each(['cut', 'clean'] as const)('continues after a %s end, and yields nothing twice', async (end) => {
    const { events, received } = await follow([
      eventStream([sent(started), sent(step(1))], end),
      json({ detail: 'restarting' }, 503, { 'retry-after': '0' }),
      // The last event is sent again.
      eventStream([sent(step(1)), sent(step(2))], end),
      eventStream([sent(ended)]),
    ]);
    expect(events).toEqual([started, step(1), step(2), ended]);
    expect(received.map(({ headers }) => headers['last-event-id'])).toEqual([
      undefined,
      uuid(2),
      uuid(2),
      uuid(3),
    ]);
  });

  it('continues after a silence', async () => {
    // Counts events, not calls: on a busy machine a call may end before its headers arrive.
    const silentFirst: Answerer = (response, request) => {
      const seen = request.headers['last-event-id'] !== undefined;
      eventStream([sent(seen ? ended : started)], 'open')(response, request);
    };
    const { events, received } = await follow([silentFirst], { idleTimeoutMs: 50 }, 100);
    expect(events).toEqual([started, ended]);
    expect(received.at(-1)?.headers['last-event-id']).toBe(uuid(1));
  });

  it('names the option that raises the silence deadline', async () => {
    const { error } = await follow([eventStream([], 'open')], { idleTimeoutMs: 30 }, 0);
    expect(error).toMatchObject({ code: 'timed_out', option: 'idleTimeoutMs' });
    expect(String(error)).toContain('no data for 30 ms. Raise idleTimeoutMs');
  });

  it('fails if the stream keeps breaking without a new event', async () => {
    const { events, error, received } = await follow([eventStream([sent(started)])], {}, 2);
    expect(events).toEqual([started]);
    expect(error).toMatchObject({ code: 'connection_failed' });
    expect(received).toHaveLength(4);
  });

  it('starts after the event in `after`', async () => {
    const { events, received } = await follow([eventStream([sent(ended)])], { after: uuid(3) });
    expect(events).toEqual([ended]);
    expect(received[0]?.headers['last-event-id']).toBe(uuid(3));
  });

  it('polls if the service has no event stream, and yields nothing twice', async () => {
    const { events, received } = await follow([
      page([started]),
      page([]),
      // A service may send an event again after the cursor.
      page([started, step(1)], true),
      page([step(2)]),
      page([ended]),
    ]);
    expect(events).toEqual([started, step(1), step(2), ended]);
    expect(received.map(({ url }) => new URLSearchParams(url.split('?')[1]).get('after'))).toEqual([
      null,
      uuid(1),
      uuid(1),
      uuid(2),
      uuid(3),
    ]);
  });

  it('polls if the event stream is no longer available', async () => {
    const { events, received } = await follow([
      eventStream([sent(started)], 'cut'),
      page([step(1)]),
      page([ended]),
    ]);
    expect(events).toEqual([started, step(1), ended]);
    expect(received[1]?.url).toContain(`after=${uuid(1)}`);
  });

  it('skips unknown events', async () => {
    const unknown = { id: uuid(4), type: 'coffee_break', data: null };
    const { events } = await follow([eventStream([sent(started), sent(unknown), sent(ended)])]);
    expect(events).toEqual([started, ended]);
  });

  it('refuses an event id that cannot be sent back in a header', async () => {
    const id = 'a'.repeat(5000);
    const { events, error } = await follow([eventStream([sent({ ...step(1), id })])], {}, 0);
    expect(events).toEqual([]);
    expect(error).toMatchObject({ code: 'bad_response' });
  });

  it('refuses an event that violates the contract', async () => {
    const { error } = await follow([eventStream([sent({ ...step(1), ...{ data: { loss: 'x' } } })])]);
    expect(error).toMatchObject({ code: 'bad_response' });
  });

  it('continues after a proxy garbles or replaces the stream', async () => {
    const { events, error } = await follow([
      eventStream([sent(started), 'data: {"id": oops']),
      json({ hello: ['world'] }),
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>'),
      eventStream([sent(started), sent(step(1)), sent(ended)]),
    ]);
    expect(error).toBeUndefined();
    expect(events).toEqual([started, step(1), ended]);
  });

  it('fails at once if the job is unknown', async () => {
    const { error, received } = await follow([json({ detail: 'no such job' }, 404)]);
    expect(error).toMatchObject({ code: 'not_found' });
    expect(received).toHaveLength(1);
  });

  it.each([
    ['a stream', eventStream([sent(started)], 'open')],
    ['a poll', page([started])],
  ])('ends with the signal’s reason while it waits for %s', async (_, answer) => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const { connect } = await serve(answer);
    const options = { signal: controller.signal, pollIntervalMs: 1e6 };
    const events = connect().trainingJobs.follow(job, options);
    expect(await events.next()).toEqual({ done: false, value: started });
    const next = events.next();
    controller.abort(reason);
    await expect(next).rejects.toBe(reason);
  });
});

describe('a streamed completion', () => {
  const chunk = (content: string) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta: { content }, finish_reason: null, extra: 1 }],
  });
  const data = (value: unknown) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}`;

  async function read(answerer: Answerer) {
    const { client, received } = await serve(answerer);
    const chunks: unknown[] = [];
    const reading = async () => {
      const stream = await client.chat.completions.create({ messages: [], stream: true });
      for await (const part of stream) chunks.push(part);
    };
    const error = await reading().catch((reason: unknown) => reason);
    return { chunks, error, received };
  }

  it('yields complete chunks until [DONE]', async () => {
    const { chunks, error, received } = await read(
      eventStream([data(chunk('grüß')), data(chunk(' dich')), data('[DONE]')], 'open'),
    );
    expect(error).toBeUndefined();
    expect(chunks).toEqual([chunk('grüß'), chunk(' dich')]);
    expect(received[0]?.headers.accept).toBe('text/event-stream');
    expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({ stream: true });
  });

  it('joins characters that are split between two packets', async () => {
    const bytes = Buffer.from(`${data(chunk('ü'))}\n\n${data('[DONE]')}\n\n`);
    const middle = bytes.indexOf(0xc3) + 1;
    const { chunks } = await read((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(bytes.subarray(0, middle), () => response.end(bytes.subarray(middle)));
    });
    expect(chunks).toEqual([chunk('ü')]);
  });

  it.each(['clean', 'cut'] as const)('is incomplete without [DONE]: a %s end is an error', async (end) => {
    const { chunks, error, received } = await read(eventStream([data(chunk('a'))], end));
    expect(chunks).toEqual([chunk('a')]);
    expect(error).toMatchObject({ code: 'connection_failed' });
    expect(received).toHaveLength(1);
  });

  it('reports a failure within the stream', async () => {
    const { error } = await read(
      eventStream([data(chunk('a')), data({ error: { message: 'engine stopped' } })], 'open'),
    );
    expect(error).toMatchObject({ code: 'service_failed' });
    expect(String(error)).toContain('engine stopped');
  });

  it('is refused if the service answers with something else', async () => {
    const { error } = await read(json({ model: 'm' }));
    expect(error).toMatchObject({ code: 'bad_response' });
    const { error: status } = await read(json({ detail: 'unknown model' }, 404));
    expect(status).toMatchObject({ code: 'not_found' });
  });

  it('is stopped at the service when the loop is left', async () => {
    const closed = Promise.withResolvers<void>();
    const { client } = await serve((response, request) => {
      response.on('close', () => closed.resolve());
      eventStream([data(chunk('a'))], 'open')(response, request);
    });
    for await (const _part of await client.chat.completions.create({ messages: [], stream: true })) break;
    await closed.promise;
  });
});
