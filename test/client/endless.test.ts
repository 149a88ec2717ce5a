import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Client, ClientOptions, FollowOptions } from '../../src/client/index.ts';
import { isRequestError } from '../../src/client/index.ts';
import { type Answerer, serve, uuid } from './server.ts';

const piece = Buffer.alloc(65_536, 'a');
/** The maximum bytes in the buffers of a connection, sent without being read. */
const onTheWay = 32 * 2 ** 20;
const limitBytes = 2 ** 20;

interface Sent {
  bytes: number;
  /** The client has closed the connection. */
  ended: Promise<void>;
}

/** Sends `text` and then `more`, as fast as it is read, until the client closes the connection. */
function endlessly(
  status: number,
  headers: Record<string, string>,
  text = '',
  more: string | Buffer = piece,
): { answer: Answerer; sent: Sent } {
  const closed = Promise.withResolvers<void>();
  const sent: Sent = { bytes: 0, ended: closed.promise };
  const flood = async (response: ServerResponse) => {
    response.on('close', () => closed.resolve());
    response.writeHead(status, headers).write(text);
    while (!response.destroyed && sent.bytes < 2 * onTheWay) {
      sent.bytes += more.length;
      if (!response.write(more))
        await Promise.race([once(response, 'drain').catch(() => undefined), closed.promise]);
    }
    response.end();
  };
  return { answer: (response) => void flood(response), sent };
}

async function failure(
  answer: Answerer,
  run: (client: Client) => Promise<unknown>,
  options: Partial<ClientOptions>,
) {
  const { connect, received } = await serve(answer);
  const error: unknown = await run(connect(options)).catch((reason: unknown) => reason);
  return { error, requests: received.length };
}

const getModel = (client: Client) => client.models.get(uuid(1));
const follow =
  (options: FollowOptions = {}) =>
  async (client: Client) => {
    for await (const _event of client.trainingJobs.follow(uuid(1), options));
  };
const chat = async (client: Client) => {
  for await (const _chunk of await client.chat.completions.create({ messages: [], stream: true }));
};

const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };
const chunk = `data: ${JSON.stringify({ model: 'm', choices: [], filler: 'a'.repeat(1000) })}\n\n`;

describe('an endless answer', () => {
  it.each([
    ['an answer', 'answerBytes', getModel, json, '{"id": "', piece],
    [
      'an answer that says how long it is',
      'answerBytes',
      getModel,
      { ...json, 'content-length': '2000000000' },
      '{',
      piece,
    ],
    ['an answer instead of events', 'answerBytes', follow(), json, '', piece],
    ['a line of an event stream', 'eventBytes', follow(), events, 'data: ', piece],
    ['an event of many lines', 'eventBytes', follow(), events, '', 'data: a\n'.repeat(5000)],
    ['an id', 'eventBytes', follow(), events, 'id: ', piece],
    ['a comment', 'eventBytes', follow(), events, ': ', piece],
    ['a chunk of a completion', 'eventBytes', chat, events, 'data: ', piece],
    ['a streamed completion', 'answerBytes', chat, events, '', chunk.repeat(50)],
  ] as const)(
    '%s is read up to a limit, which the error states',
    async (_, limit, run, headers, text, more) => {
      const { answer, sent } = endlessly(200, headers, text, more);
      const { error, requests } = await failure(answer, run, { limits: { [limit]: limitBytes } });
      expect(error).toMatchObject({ code: 'response_too_large', status: 200, option: `limits.${limit}` });
      expect(String(error)).toContain(`larger than ${limitBytes} bytes. Raise limits.${limit} of the client`);
      await sent.ended;
      expect(sent.bytes).toBeLessThan(onTheWay);
      expect(requests).toBe(1);
    },
  );

  it.each([
    ['an error', 500, json, 'service_failed', getModel],
    ['an error of a stream', 500, events, 'service_failed', follow()],
    [
      'a page instead of a file',
      200,
      { 'content-type': 'text/html' },
      'bad_response',
      (client: Client) => client.models.checkpoints.download(uuid(1), 1),
    ],
    ['a page instead of a completion', 200, { 'content-type': 'text/html' }, 'bad_response', chat],
  ] as const)(
    '%s appears in the error with its beginning, and the rest is not read',
    async (_, status, headers, code, run) => {
      const { answer, sent } = endlessly(status, headers, '<h1>Bad gateway</h1>');
      const { error } = await failure(answer, run, { retries: 0 });
      expect(error).toMatchObject({ code });
      expect(String(error)).toContain('a page of HTML, "Bad gateway"');
      await sent.ended;
      expect(sent.bytes).toBeLessThan(onTheWay);
    },
  );
});

describe('an answer that arrives slowly without end', () => {
  /** Sends `text`, and then `more` repeatedly. */
  const dripping =
    (status: number, headers: Record<string, string>, text: string, more: string): Answerer =>
    (response) => {
      response.writeHead(status, headers).write(text);
      const timer = setInterval(() => response.write(more), 2);
      response.on('close', () => clearInterval(timer));
    };

  it('ends at the deadline of an event, silence or not', async () => {
    const answer = dripping(200, events, 'data: {"id": "', 'a');
    const { error } = await failure(answer, follow(), { retries: 0, readTimeoutMs: 60 });
    expect(error).toMatchObject({ code: 'timed_out' });
    expect(String(error)).toContain('an event was incomplete after 60 ms');
    expect(String(error)).toContain('Raise readTimeoutMs');
  });

  it.each([
    ['an error', 500, json],
    ['a page instead of events', 200, json],
  ])('ends at the deadline of silence, as %s', async (_, status, headers) => {
    const answer = dripping(status, headers, '{"detail": "', 'a');
    const { error } = await failure(answer, follow({ idleTimeoutMs: 100 }), { retries: 0 });
    expect(error).toMatchObject({ code: 'timed_out' });
    // On a busy machine the headers may not arrive in time.
    const hasHeaders = isRequestError(error) && error.status !== null;
    const what = hasHeaders ? 'no complete answer within' : 'no data for';
    expect(String(error)).toContain(`${what} 100 ms. Raise idleTimeoutMs`);
  });

  it('does not time out when it consists of comments', async () => {
    const ended = { id: uuid(2), type: 'training_ended', data: {} };
    let left = 30;
    const { error } = await failure(
      (response) => {
        response.writeHead(200, events);
        const timer = setInterval(() => {
          if (left-- > 0) response.write(': waiting\n\n');
          else response.write(`data: ${JSON.stringify(ended)}\n\n`);
        }, 2);
        response.on('close', () => clearInterval(timer));
      },
      follow(),
      { retries: 0, readTimeoutMs: 20 },
    );
    expect(error).toBeUndefined();
  });
});
