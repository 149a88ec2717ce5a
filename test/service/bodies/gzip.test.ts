import { request } from 'node:http';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { tokensOf } from '../../support/scripted-engine.ts';
import { group, type Json, start, trajectory } from '../harness.ts';

const mebibyte = 1024 ** 2;
const desk = { project: 'desk', base_model: 'scripted-tiny' };
const example = {
  messages: [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ],
};

type Service = Awaited<ReturnType<typeof start>>;

/** Sends bytes, or a stream of them, and resolves to the answer as soon as it arrives. */
function send(
  { service }: Service,
  {
    method = 'POST',
    path,
    body,
    headers = {},
  }: { method?: string; path: string; body: Buffer | Readable; headers?: object },
): Promise<{ status: number; headers: Json; body: Json }> {
  return new Promise((resolve, reject) => {
    const sending = request(`${service.url}${path}`, {
      method,
      headers: {
        ...{ authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
        ...{ 'content-encoding': 'gzip', ...headers },
        ...(Buffer.isBuffer(body) ? { 'content-length': body.length } : {}),
      },
    });
    sending.on('error', reject);
    sending.on('response', async (response) => {
      const text = Buffer.concat(await response.toArray()).toString();
      sending.destroy();
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        body: JSON.parse(text || 'null'),
      });
    });
    if (Buffer.isBuffer(body)) sending.end(body);
    else body.pipe(sending);
  });
}

const zip = (value: unknown) => gzipSync(typeof value === 'string' ? value : JSON.stringify(value));

describe('a body with Content-Encoding: gzip', () => {
  test('is accepted on every path that reads a body', async () => {
    const running = await start();
    const post = async (path: string, value: unknown, method = 'POST') => {
      const { status, body } = await send(running, { method, path, body: zip(value) });
      expect([path, status, body.detail]).toEqual([path, 200, undefined]);
      return body;
    };
    const model = await post('/v1/preview/models', desk);
    const here = `/v1/preview/models/${model.id}`;
    const groups = [group(trajectory(1, tokensOf('yes')), trajectory(0, tokensOf('no')))];
    const chat = { messages: [{ role: 'user', content: 'hi' }] };
    for (const path of ['/v1/chat/completions', '/v1/chat/completions/'])
      expect((await post(path, chat)).choices[0].message.content).toBeTypeOf('string');
    expect(await post(`${here}/log`, { split: 'train', trajectory_groups: groups })).toMatchObject({
      num_trajectories: 2,
    });
    const { url, bytes } = await post('/v1/preview/uploads', JSON.stringify(example));
    expect(bytes).toBe(JSON.stringify(example).length);
    await post('/v1/preview/sft-training-jobs', { model_id: model.id, training_data_url: url });
    // More than is kept in memory: it is stored in a file.
    const large =
      JSON.stringify({ model_id: model.id, trajectory_groups: groups }) + ' '.repeat(2 * mebibyte);
    const job = await post('/v1/preview/training-jobs', large);
    expect((await running.follow(job.id)).at(-1).type).toBe('training_ended');
    expect((await post(`${here}/fork`, { name: 'fork' })).name).toBe('fork');
    expect(await post(`${here}/checkpoints`, { steps: [0] }, 'DELETE')).toMatchObject({ deleted_count: 1 });
    const file = Buffer.concat([zip('{"project":"desk",'), zip('"base_model":"scripted-tiny"}')]);
    expect((await send(running, { path: '/v1/preview/models', body: file })).status).toBe(200);
  });

  test('that is empty counts as no body, as some clients always send the header', async () => {
    const running = await start();
    const model = await running.createModel();
    const fork = await send(running, { path: `/v1/preview/models/${model.id}/fork`, body: Buffer.alloc(0) });
    expect(fork.status).toBe(200);
    const empty = await send(running, { path: '/v1/preview/models', body: Buffer.alloc(0) });
    expect(empty.body.detail).toMatchObject([{ type: 'json_invalid' }]);
  });

  test('repeats the same body uncompressed, under one Idempotency-Key', async () => {
    const running = await start();
    const headers = { 'idempotency-key': 'one' };
    const path = '/v1/preview/models';
    const plain = await running.call('POST', path, desk, headers);
    const zipped = await send(running, { path, body: zip(desk), headers });
    const stored = await send(running, { path, body: gzipSync(JSON.stringify(desk), { level: 0 }), headers });
    expect([zipped.body, stored.body]).toEqual([plain.body, plain.body]);
    const other = await send(running, { path, body: zip({ ...desk, name: 'other' }), headers });
    expect(other.status).toBe(409);
  });

  test('may have the maximum length of a body after decompression', async () => {
    const running = await start({ bodyLimits: { preview: mebibyte } });
    const text = (length: number) => JSON.stringify(desk).padEnd(length);
    const path = '/v1/preview/models';
    expect((await send(running, { path, body: zip(text(mebibyte)) })).status).toBe(200);
    expect((await send(running, { path, body: zip(text(mebibyte + 1)) })).status).toBe(413);
    // Stored without compression: longer than decompressed, and what is sent counts too.
    const stored = (length: number) => gzipSync(text(length), { level: 0 });
    expect((await send(running, { path, body: stored(mebibyte - 1024) })).status).toBe(200);
    expect((await send(running, { path, body: stored(mebibyte) })).status).toBe(413);
  });

  test('that decompresses without end is refused early, with little memory', async () => {
    const running = await start({ bodyLimits: { preview: 128 * mebibyte } });
    const endless = (member: Buffer) => {
      const counted = { bytes: 0 };
      const members = function* () {
        for (;;) {
          counted.bytes += member.length;
          yield member;
        }
      };
      return { counted, body: Readable.from(members()) };
    };
    // 64 MiB of spaces in 64 KiB, repeated until the answer arrives.
    const bomb = endless(zip(' '.repeat(64 * mebibyte)));
    const before = process.resourceUsage().maxRSS;
    const refused = await send(running, { path: '/v1/preview/training-jobs', body: bomb.body });
    expect([refused.status, refused.body.detail]).toEqual([
      413,
      expect.stringContaining(String(128 * mebibyte)),
    ]);
    expect(bomb.counted.bytes).toBeLessThan(4 * mebibyte);
    expect((process.resourceUsage().maxRSS - before) / 1024).toBeLessThan(100);
    expect((await running.call('GET', '/v1/health')).status).toBe(200);

    // Input that decompresses to nothing counts as it arrives.
    const small = await start({ bodyLimits: { preview: 4 * mebibyte } });
    const empty = endless(Buffer.concat(Array(1000).fill(zip(''))));
    expect((await send(small, { path: '/v1/preview/models', body: empty.body })).status).toBe(413);
    expect((await small.call('GET', '/v1/health')).status).toBe(200);
  });

  const whole = zip(desk);
  const wrongSum = Buffer.from(whole);
  wrongSum.writeUInt8(wrongSum.readUInt8(whole.length - 8) ^ 1, whole.length - 8);
  test.each([
    ['cut off', whole.subarray(0, -9)],
    ['cut off in its head', whole.subarray(0, 4)],
    ['of another sum', wrongSum],
    ['not compressed', Buffer.from(JSON.stringify(desk))],
    ['followed by something else', Buffer.concat([whole, Buffer.from('more')])],
  ])('that is %s is a 400', async (_, body) => {
    const running = await start();
    for (const path of ['/v1/preview/models', '/v1/chat/completions']) {
      const answer = await send(running, { path, body });
      expect([answer.status, answer.body.detail]).toEqual([
        400,
        expect.stringContaining('not complete gzip data'),
      ]);
    }
  });

  test('in another encoding is a 415 that names the supported ones', async () => {
    const running = await start();
    const path = '/v1/preview/models';
    for (const encoding of ['br', 'deflate', 'zstd', 'gzip, gzip', 'x']) {
      const headers = { 'content-encoding': encoding };
      const answer = await send(running, { path, body: Buffer.from(JSON.stringify(desk)), headers });
      expect([encoding, answer.status, answer.headers['accept-encoding']]).toEqual([encoding, 415, 'gzip']);
      expect(answer.body.detail).toContain(encoding);
      expect(answer.body.detail).toContain('as gzip');
    }
    for (const encoding of ['identity', '']) {
      const headers = { 'content-encoding': encoding };
      const answer = await send(running, { path, body: Buffer.from(JSON.stringify(desk)), headers });
      expect([encoding, answer.status]).toEqual([encoding, 200]);
    }
    const body = zip(desk);
    expect((await send(running, { path, body, headers: { 'content-encoding': 'X-GZIP' } })).status).toBe(200);
  });
});
