import { createHash, randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { keepClean, keptMs, removeUnused } from '../../../src/service/store/cleaning.ts';
import { baseModel } from '../../support/scripted-engine.ts';
import { group, type Json, trajectory } from '../harness.ts';
import { open } from '../opened.ts';

const line = (reply: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  });
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const uploads = '/v1/preview/uploads';
const sft = '/v1/preview/sft-training-jobs';

test('an upload is removed if no job needs it and it has not been used for 30 days', async () => {
  const { service, call, createModel, dataFolder } = await open();
  // Their jobs stay in the queue.
  service.queue.wake = () => {};
  const model = await createModel();
  const urls: Json = {};
  for (const name of ['unused', 'used', 'needed'])
    urls[name] = (await call('POST', uploads, line(name))).body.url;
  const train = (url: string) => call('POST', sft, { model_id: model.id, training_data_url: url });
  expect((await train(urls.needed)).status).toBe(200);
  const files = () => readdirSync(join(dataFolder, 'uploads')).sort();
  const fileOf = (name: string) => `${sha256(line(name))}.jsonl`;

  await removeUnused({ ...service, now: Date.now() + keptMs - 60_000 });
  expect(files()).toHaveLength(3);
  const { store } = service;
  const use = store.unusedUploads.bind(store);
  // It is requested between the search for unused data and the removal.
  store.unusedUploads = async (before) => {
    const unused = await use(before);
    if (unused.includes(sha256(line('used')))) expect((await train(urls.used)).status).toBe(200);
    return unused;
  };
  await removeUnused({ ...service, now: Date.now() + keptMs + 60_000 });
  expect(files()).toEqual(['needed', 'used'].map(fileOf).sort());
  const expired = await train(urls.unused);
  expect(expired.body.detail[0].msg).toContain('30 days without use');
  expect((await call('POST', uploads, line('unused'))).status).toBe(200);
  expect((await train(urls.unused)).status).toBe(200);
});

test('an idempotency key without a model is removed after 30 days, one of a model with the model', async () => {
  const { service, call } = await open();
  service.queue.wake = () => {};
  const { store } = service;
  const body = { project: 'desk', base_model: baseModel.id };
  const { body: model } = await call('POST', '/v1/preview/models', body, { 'idempotency-key': 'model' });
  await call('POST', uploads, line('a'), { 'idempotency-key': 'upload' });
  // A crash happened between the creation of these and their answers.
  const jobId = randomUUID();
  await store.reserveIdempotencyKey({
    ...{ key: 'unanswered', fingerprint: 'f', resourceId: jobId, answer: null },
  });
  await store.insertJob({
    ...{ id: jobId, modelId: model.id, kind: 'rl', status: 'queued', resolvedConfig: {}, tenant: '' },
    ...{ createdAt: 'now', startedAt: null, endedAt: null, errorMessage: null, step: null, untrained: null },
    ...{ uploadSha256: null, groupIds: null, traceparent: null },
  });
  await store.reserveIdempotencyKey({
    ...{ key: 'refused', fingerprint: 'f', resourceId: randomUUID(), answer: null },
  });
  const other = { fingerprint: 'another', answer: null };
  const isKnown = async (key: string) => {
    const resourceId = randomUUID();
    const found = await store.reserveIdempotencyKey({ ...other, key, resourceId });
    if (found.resourceId === resourceId) await store.releaseIdempotencyKey(key);
    return found.resourceId !== resourceId;
  };
  const known = async () => ({
    model: await isKnown('model'),
    upload: await isKnown('upload'),
    unanswered: await isKnown('unanswered'),
    refused: await isKnown('refused'),
  });
  await removeUnused({ ...service, now: Date.now() + keptMs - 60_000 });
  expect(await known()).toEqual({ model: true, upload: true, unanswered: true, refused: true });
  await removeUnused({ ...service, now: Date.now() + keptMs + 60_000 });
  expect(await known()).toEqual({ model: true, upload: false, unanswered: true, refused: false });
  await call('DELETE', `/v1/preview/models/${model.id}`);
  expect(await known()).toEqual({ model: false, upload: false, unanswered: false, refused: false });
});

test('a key that is answered after the deletion of its model is removed', async () => {
  const { service, call, createModel } = await open();
  const { store } = service;
  const model = await createModel();
  const path = `/v1/preview/models/${model.id}`;
  const answer = store.answerIdempotencyKey.bind(store);
  store.answerIdempotencyKey = async (...given) => {
    expect((await call('DELETE', path)).status).toBe(200);
    await answer(...given);
  };
  const log = { split: 'train', trajectory_groups: [group(trajectory(1, [1]), trajectory(0, [1]))] };
  const key = { 'idempotency-key': 'log' };
  expect((await call('POST', `${path}/log`, log, key)).status).toBe(200);
  expect((await call('POST', `${path}/log`, log, key)).status).toBe(404);
});

test('unused data is searched every hour; a clock that jumps ahead removes nothing, and a failure stops nothing', async () => {
  const { service } = await open();
  const { store, log } = service;
  vi.useFakeTimers({ toFake: ['Date', 'performance', 'setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const began = Date.now();
  const looked: number[] = [];
  store.forgetIdempotencyKeys = async (before) => {
    looked.push(before + keptMs - began);
    if (looked.length === 1) throw new Error('database or disk is full');
    return false;
  };
  const logged: string[] = [];
  const closing = new AbortController();
  keepClean({
    ...service,
    closing: closing.signal,
    log: (entry) => {
      logged.push(entry.event);
      log(entry);
    },
  });
  const hour = 3_600_000;
  await vi.advanceTimersByTimeAsync(hour);
  vi.setSystemTime(Date.now() + 2 * keptMs);
  await vi.advanceTimersByTimeAsync(hour);
  expect(looked).toEqual([hour, 2 * hour]);
  expect(logged).toEqual(['cleaning_failed']);
  closing.abort();
  await vi.advanceTimersByTimeAsync(hour);
  expect(looked).toHaveLength(2);
});
