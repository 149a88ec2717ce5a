import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRetryAfter, retryDelayMs } from '../../src/client/retry.ts';
import { type Answerer, cutInBody, json, serve, uuid } from './server.ts';

const created = json({ id: uuid(9) });
const completion = json({
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const job = { model_id: uuid(1), trajectory_groups: [] };
const reset: Answerer = (response) => response.socket?.destroy();
const fail = (status: number) => json({ detail: 'not now' }, status, { 'retry-after': '0' });

describe('a call that is safe to repeat', () => {
  it.each([
    ['429', fail(429)],
    ['500', fail(500)],
    ['502', fail(502)],
    ['503', fail(503)],
    ['a reset', reset],
    ['a cut body', cutInBody],
  ])('is retried after %s, with the same idempotency key', async (_, failure) => {
    const { client, received } = await serve(failure, failure, created);
    expect(await client.trainingJobs.create(job)).toEqual({ id: uuid(9) });
    expect(received).toHaveLength(3);
    const keys = received.map(({ headers }) => headers['idempotency-key']);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(new Set(keys).size).toBe(1);
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);
  });

  it('uses the caller’s idempotency key, else a new one for each call', async () => {
    const { client, received } = await serve(created);
    await client.trainingJobs.create(job, { idempotencyKey: 'kept' });
    await client.trainingJobs.create(job);
    await client.trainingJobs.create(job);
    const [first, second, third] = received.map(({ headers }) => headers['idempotency-key']);
    expect(first).toBe('kept');
    expect(second).not.toBe(third);
  });

  it('is not retried if the answer would be the same', async () => {
    const { client, received } = await serve(fail(409));
    await expect(client.trainingJobs.create(job)).rejects.toMatchObject({ status: 409 });
    expect(received).toHaveLength(1);
  });

  it('refuses a key that is not a valid header value', async () => {
    const { client, received } = await serve(created);
    for (const idempotencyKey of ['', 'two\nlines', 'schlüssel'])
      await expect(client.trainingJobs.create(job, { idempotencyKey })).rejects.toMatchObject({
        code: 'invalid_client_option',
      });
    expect(received).toHaveLength(0);
  });

  it('fails after the last retry with the last error, which has the earlier ones', async () => {
    const { connect, received } = await serve(reset, fail(500), fail(500), fail(503));
    await expect(connect({ retries: 3 }).models.get(uuid(1))).rejects.toMatchObject({
      status: 503,
      earlier: [{ code: 'connection_failed' }, { status: 500 }, { status: 500 }],
      message: expect.stringMatching(/This was attempt 4; before it: connection_failed, 500 \(2 times\)\.$/),
    });
    expect(received).toHaveLength(4);
  });
});

describe('a retried call', () => {
  it('reports each failed attempt before its pause, on any route', async () => {
    const notices: { status: number | null; attempt: number; delayMs: number }[] = [];
    const onRetry = (notice: { status: number | null; attempt: number; delayMs: number }) =>
      notices.push(notice);
    const chat = await serve(fail(429), fail(503), completion);
    await chat.client.chat.completions.create({ messages: [] }, { onRetry });
    const read = await serve(
      reset,
      json({ id: uuid(1), entity: 'e', project: 'p', name: 'n', base_model: 'b' }),
    );
    await read.client.models.get(uuid(1), { onRetry });
    expect(notices.map(({ status, attempt }) => [status, attempt])).toEqual([
      [429, 1],
      [503, 2],
      [null, 1],
    ]);
    for (const { delayMs } of notices) expect(delayMs).toBeGreaterThanOrEqual(0);
  });
});

describe('a chat completion', () => {
  it.each([408, 429, 503])('is retried after %d, if nothing was sampled', async (status) => {
    const { client, received } = await serve(fail(status), completion);
    await client.chat.completions.create({ messages: [] });
    expect(received).toHaveLength(2);
  });

  it.each([
    ['500', fail(500)],
    ['502', fail(502)],
    ['a reset', reset],
    ['a cut body', cutInBody],
  ])('is not retried after %s, if it may have been sampled', async (_, failure) => {
    const { client, received } = await serve(failure, completion);
    await expect(client.chat.completions.create({ messages: [] })).rejects.toMatchObject({ name: /Error$/ });
    expect(received).toHaveLength(1);
  });
});

describe('a job on a service that may not know idempotency keys', () => {
  it('is not retried after a 503 that may come from a proxy that lost the service', async () => {
    const { connect, received } = await serve(json({ detail: 'gone' }, 503), created);
    const client = connect({ dialect: 'deployed' });
    await expect(client.trainingJobs.create(job)).rejects.toMatchObject({ status: 503 });
    expect(received).toHaveLength(1);
  });

  it('differs from a model that may already exist, an upload and a cancellation, which need no key', async () => {
    const model = { id: uuid(1), entity: 'e', project: 'p', name: 'n', base_model: 'b' };
    const request = { project: 'p', name: 'n', base_model: 'b' };
    const known = await serve(reset, json(model));
    const client = known.connect({ dialect: 'deployed' });
    expect(await client.models.create({ ...request, return_existing: true })).toMatchObject(model);
    expect(known.received).toHaveLength(2);
    const lost = await serve(reset, json(model));
    const other = lost.connect({ dialect: 'deployed' });
    await expect(other.models.create(request)).rejects.toMatchObject({ code: 'connection_failed' });
    const unnamed = other.models.create({ project: 'p', base_model: 'b', return_existing: true });
    await expect(unnamed).resolves.toMatchObject(model);
    expect(lost.received).toHaveLength(2);
    const cancelled = await serve(reset, json({ id: uuid(9) }));
    await cancelled.connect({ dialect: 'deployed' }).trainingJobs.cancel(uuid(9));
    expect(cancelled.received).toHaveLength(2);
  });

  it('is retried only if the first call cannot have created one', async () => {
    const { connect, received } = await serve(fail(503), fail(500), created);
    const client = connect({ dialect: 'deployed' });
    await expect(client.trainingJobs.create(job)).rejects.toMatchObject({ status: 500 });
    expect(received).toHaveLength(2);
  });
});

describe('retryDelayMs', () => {
  it('doubles the longest pause with every failure up to half a minute, and spreads the pauses below it', () => {
    expect([0, 1, 2, 3].map((failures) => retryDelayMs(failures, 500, null, 1))).toEqual([
      500, 1000, 2000, 4000,
    ]);
    expect(retryDelayMs(30, 500, null, 1)).toBe(30_000);
    expect(retryDelayMs(3, 500, null, 0)).toBe(0);
  });

  it('never returns before the time that the service requested', () => {
    const random = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.nat(40), fc.nat(60_000), random, (failures, retryAfterMs, r) => {
        const delay = retryDelayMs(failures, 500, retryAfterMs, r);
        expect(delay).toBeGreaterThanOrEqual(retryAfterMs);
        expect(delay).toBeLessThanOrEqual(retryAfterMs + 30_000);
      }),
      { seed: 7 },
    );
  });
});

describe('parseRetryAfter', () => {
  it('reads seconds and dates, and nothing else', () => {
    const now = 'Sat, 21 Nov 2026 00:00:00 GMT';
    expect(parseRetryAfter('7', now)).toBe(7000);
    expect(parseRetryAfter('0.5', now)).toBe(500);
    expect(parseRetryAfter('Sat, 21 Nov 2026 00:00:10 GMT', now)).toBe(10_000);
    expect(parseRetryAfter('Fri, 20 Nov 2026 00:00:10 GMT', now)).toBe(0);
    for (const header of [null, '', 'soon']) expect(parseRetryAfter(header, now)).toBeNull();
  });

  it('reads a date by the service’s clock, or by ours if it sends none', () => {
    const wait = (header: string, date: string | null) => parseRetryAfter(header, date);
    expect(wait('Thu, 01 Jan 2099 00:00:30 GMT', 'Thu, 01 Jan 2099 00:00:00 GMT')).toBe(30_000);
    expect(wait('Thu, 01 Jan 1998 00:00:30 GMT', 'Thu, 01 Jan 1998 00:00:00 GMT')).toBe(30_000);
    expect(wait('Thu, 01 Jan 1998 00:00:30 GMT', 'no date')).toBe(0);
    expect(wait('Thu, 01 Jan 2099 00:00:00 GMT', null)).toBeGreaterThan(60_000);
  });
});
