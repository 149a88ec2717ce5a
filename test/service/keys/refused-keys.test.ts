import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { KeyStore } from '../../../src/service/index.ts';
import { start } from '../harness.ts';

/** Sends a raw request with its header lines; resolves to the whole answer. */
async function ask(url: string, lines: readonly string[], path = '/v1/models', body = ''): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  const method = body === '' ? 'GET' : 'POST';
  const head = [`${method} ${path} HTTP/1.1`, 'Host: service', 'Connection: close', ...lines];
  if (body !== '') head.push(`Content-Length: ${body.length}`);
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => {});
  await once(socket, 'close');
  return Buffer.concat(chunks).toString('latin1');
}

const statusOf = (answer: string) => Number(answer.split(' ')[1]);
const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n'));

async function withKeys() {
  const running = await start();
  const keys = await KeyStore.open(running.dataFolder);
  onTestFinished(() => keys.close());
  const { id, key } = keys.create('laptop', { entity: 'team-a' });
  return { ...running, keys, id, key, url: running.service.url };
}

describe('a request is refused', () => {
  test('with a valid key in another scheme or case, twice, or outside its header', async () => {
    const { url, key, log } = await withKeys();
    const basic = Buffer.from(`user:${key}`).toString('base64');
    const json = JSON.stringify({ api_key: key, key, authorization: `Bearer ${key}`, messages: [] });
    const chat = '/v1/chat/completions';
    const attempts: Parameters<typeof ask>[1][] = [
      [],
      ['Authorization:'],
      ['Authorization: Bearer'],
      [`Authorization: ${key}`],
      [`Authorization: Basic ${basic}`],
      [`Authorization: Basic ${key}`],
      [`Authorization: Token ${key}`],
      [`Authorization: Bearer${key}`],
      [`Authorization: Bearer "${key}"`],
      [`Authorization: Bearer ${key.toUpperCase()}`],
      [`Authorization: Bearer ${key},`],
      [`Authorization: Bearer ${key} ${key}`],
      [`Authorization: Bearer ${key.slice(0, -1)}`],
      [`Authorization: Bearer ${key}x`],
      [`Authorization: Bearer ${key}`, 'Authorization: Bearer wrong'],
      ['Authorization: Bearer wrong', `Authorization: Bearer ${key}`],
      [`Authorization: Bearer ${key}`, `Authorization: Bearer ${key}`],
      [`Authorization: Bearer ${key}`, `Authorization: Basic ${basic}`],
      [`X-Api-Key: ${key}`, `Api-Key: ${key}`, `Proxy-Authorization: Bearer ${key}`, `Cookie: key=${key}`],
    ];
    for (const lines of attempts) {
      const answer = await ask(url, lines);
      expect([lines, statusOf(answer)]).toEqual([lines, 401]);
      expect(answer).toMatch(/\r\nwww-authenticate: Bearer\r\n/i);
      expect(answer).not.toContain(key);
    }
    for (const path of [`/v1/models?api_key=${key}`, `/v1/models?access_token=${key}`, `/${key}`])
      expect(statusOf(await ask(url, [], path))).toBe(401);
    expect(statusOf(await ask(url, [], chat, json))).toBe(401);
    // The scheme's name has no case (RFC 9110, section 11.1); more than one space before the key is allowed.
    for (const line of [`Authorization: Bearer ${key}`, `authorization:  bearer   ${key}  `])
      expect(statusOf(await ask(url, [line]))).toBe(200);
    const logged = log.filter((entry) => !JSON.stringify(entry).includes(`"path":"/${key}"`));
    expect(JSON.stringify(logged)).not.toContain(key.slice(-20));
  });

  test('with the same message for a wrong, a revoked and a malformed key', async () => {
    const { url, keys } = await withKeys();
    const revoked = keys.create('');
    keys.revoke(revoked.id);
    const refusal = async (given: string) => {
      const answer = await ask(url, [`Authorization: Bearer ${given}`]);
      return { status: statusOf(answer), body: bodyOf(answer), lines: answer.split('\r\n').length };
    };
    const first = await refusal(revoked.key);
    expect(first.status).toBe(401);
    const printable = fc.string({ minLength: 1, maxLength: 200, unit: fc.constantFrom(...visible) });
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          printable,
          printable.map((text) => `mg-${revoked.id}-${text}`),
          fc.constantFrom(
            '__proto__',
            'mg-',
            `mg-${'0'.repeat(16)}-${'A'.repeat(43)}`,
            "' OR 1=1 --",
            'x'.repeat(8000),
          ),
        ),
        async (given) => {
          expect(await refusal(given)).toEqual(first);
        },
      ),
      { seed: 5, numRuns: 60 },
    );
  });

  test('after its key is revoked, even on an open connection, while others continue', async () => {
    const { keys, call, id, key } = await withKeys();
    const other = keys.create('other');
    const status = async (given: string) =>
      (await call('GET', '/v1/models', undefined, { authorization: `Bearer ${given}` })).status;
    expect([await status(key), await status(other.key)]).toEqual([200, 200]);
    keys.revoke(id);
    expect([await status(key), await status(other.key)]).toEqual([401, 200]);
  });
});

/** Characters of a header value that are not trimmed. */
const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index));
