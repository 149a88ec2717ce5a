import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import type { Answer } from '../../service/harness.ts';
import { temporaryFolder } from '../../support/files.ts';
import { heldJob, until } from './held-job.ts';
import { start } from './started.ts';

const limit: [string, ...string[]] = ['sh', '-c', 'ulimit -n 88; exec "$0" "$@"'];

/** Calls over one connection, opened before the others. */
function oneConnection(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return async (method: string, path: string, body?: object | string, key?: string): Promise<Answer> => {
    const headers = {
      authorization: 'Bearer test-key',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    };
    const asked = request(`${url}${path}`, { method, agent, headers });
    asked.end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body));
    const [response] = await once(asked, 'response');
    const said = await text(response);
    return {
      ...{ status: response.statusCode, headers: new Headers(response.headers) },
      body: said === '' ? null : JSON.parse(said),
    };
  };
}

/** Whether the service accepts a connection. It closes one beyond its limit at once. */
function isTaken(socket: Socket): Promise<boolean> {
  return new Promise((resolve) => {
    socket.on('error', () => {});
    socket.once('close', () => resolve(false));
    socket.once('connect', () => {
      // An incomplete request keeps the connection open without an answer.
      socket.write('GET /v1/health HTTP/1.1\r\nhost: x\r\n');
      setTimeout(resolve, 20, true);
    });
  });
}

/** Opens connections until the service accepts no more. */
async function occupy(url: string): Promise<Socket[]> {
  const { port, hostname } = new URL(url);
  const held: Socket[] = [];
  for (;;) {
    const socket = connect(Number(port), hostname);
    held.push(socket);
    if (!(await isTaken(socket)) || held.length === 200) return held;
  }
}

test('a service without file handles says so, keeps sampling, and recovers when it has some', async () => {
  const folder = await temporaryFolder();
  const hold = join(folder, 'hold');
  const env = { ...process.env, MARTINGALE_TEST_HOLD: hold };
  const service = await start(join(folder, 'data'), { under: limit, env });
  const call = oneConnection(service.url);
  const job = await heldJob(call, hold, 'handles');

  const held = await occupy(service.url);
  expect(held.length).toBeGreaterThan(5);
  const line = JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'a' },
    ],
  });
  const upload = () => call('POST', '/v1/preview/uploads', line, 'upload-1');
  const refused = await upload();
  expect(refused).toMatchObject({ status: 503, body: { error: { code: 'too_many_files' } } });
  expect(refused.headers.get('retry-after')).toBe('1');
  const error = expect.stringContaining('EMFILE');
  expect(service.log).toContainEqual(expect.objectContaining({ event: 'request_failed', error }));
  const chat = (fields: object = {}) =>
    call('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }], ...fields });
  expect((await chat()).status).toBe(200);
  const own = { chat_template: '{{ messages[0].content }}' };
  expect(await chat(own)).toMatchObject({ status: 503, body: { error: { code: 'templates_unavailable' } } });
  expect((await call('GET', '/v1/preview/models')).status).toBe(200);
  job.release();
  await job.waits('files and connections');

  for (const socket of held) socket.destroy();
  await until(call, '/v1/system-check', ({ status }) => status === 200);
  expect((await upload()).status).toBe(200);
  expect((await chat(own)).status).toBe(200);
  await job.ended(service.follow);
});
