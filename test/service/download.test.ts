import { describe, expect, test } from 'vitest';
import type { Weights } from '../../src/engines/engine.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { start } from './harness.ts';

const mebibyte = 1024 ** 2;

/** An engine with a long export that reports how much of it was read and when it was aborted. */
class LongExport extends ScriptedEngine {
  taken = 0;
  readonly left = Promise.withResolvers<void>();
  readonly length = 32;
  failAt = Number.POSITIVE_INFINITY;

  override async exportWeights() {
    return { extension: '.safetensors', bytes: this.length * mebibyte, chunks: this.#chunks() };
  }

  async *#chunks(): AsyncGenerator<Uint8Array> {
    try {
      for (; this.taken < this.length; this.taken++) {
        if (this.taken === this.failAt) throw new Error('the disk is gone');
        yield new Uint8Array(mebibyte).fill(this.taken);
      }
    } finally {
      this.left.resolve();
    }
  }
}

/** An engine whose export waits until it is aborted. */
class WaitingExport extends ScriptedEngine {
  readonly begun = Promise.withResolvers<void>();
  readonly aborted = Promise.withResolvers<unknown>();

  override async exportWeights(_weights: Weights, { signal }: { signal?: AbortSignal } = {}) {
    signal?.addEventListener('abort', () => this.aborted.resolve(signal.reason));
    this.begun.resolve();
    return new Promise<never>(() => undefined);
  }
}

async function download(engine = new ScriptedEngine()) {
  const running = await start({ engine });
  const model = await running.createModel({ name: 'agent.v1' });
  const path = `/v1/preview/models/${model.id}/checkpoints`;
  return { ...running, path };
}

describe('download of a checkpoint', () => {
  test('is a file with its name and its size; step 0 of a new model is the base', async () => {
    const { raw, path } = await download();
    const response = await raw('GET', `${path}/0/download`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-disposition')).toBe(
      'attachment; filename="agent.v1-step0.safetensors"',
    );
    expect(response.headers.get('content-type')).toBe('application/octet-stream');
    const text = await response.text();
    expect(JSON.parse(text)).toEqual({ baseModel: 'scripted-tiny', folder: null });
    expect(response.headers.get('content-length')).toBe(String(text.length));
  });

  test('a missing step is a 404, and an invalid step a 422', async () => {
    const { call, path } = await download();
    expect(await call('GET', `${path}/1/download`)).toMatchObject({
      status: 404,
      body: { detail: expect.stringContaining('step 1') },
    });
    for (const step of ['-1', 'newest', '1.5', '1e0'])
      expect(await call('GET', `${path}/${step}/download`), step).toMatchObject({
        status: 422,
        body: { detail: [{ loc: ['path', 'step'] }] },
      });
  });

  test('every byte arrives, in order', async () => {
    const engine = new LongExport();
    const { raw, path } = await download(engine);
    const response = await raw('GET', `${path}/0/download`);
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(bytes.length).toBe(engine.length * mebibyte);
    for (let chunk = 0; chunk < engine.length; chunk++) expect(bytes[chunk * mebibyte]).toBe(chunk);
  });

  test('is read no faster than the client receives it, and stops when the client disconnects', async () => {
    const engine = new LongExport();
    const { raw, path } = await download(engine);
    const response = await raw('GET', `${path}/0/download`);
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    await engine.left.promise;
    expect(engine.taken).toBeLessThan(engine.length);
  });

  test('an export that is being made is aborted when the client leaves, and when the service closes', async () => {
    for (const how of ['leaves', 'closes']) {
      const engine = new WaitingExport();
      const { service, path } = await download(engine);
      const stop = new AbortController();
      const headers = { authorization: `Bearer ${service.apiKey}` };
      const asked = fetch(`${service.url}${path}/0/download`, { headers, signal: stop.signal });
      const outcome = asked.then(
        ({ status }) => status,
        () => 'left',
      );
      await engine.begun.promise;
      if (how === 'leaves') stop.abort();
      else void service.close();
      expect(await engine.aborted.promise).toBeInstanceOf(Error);
      expect(await outcome).toBe(how === 'leaves' ? 'left' : 503);
    }
  });

  test('HEAD describes the file without reading it', async () => {
    const engine = new LongExport();
    const { raw, path } = await download(engine);
    const response = await raw('HEAD', `${path}/0/download`);
    expect(response.headers.get('content-length')).toBe(String(engine.length * mebibyte));
    expect(await response.text()).toBe('');
    expect(engine.taken).toBe(0);
  });

  test('an interrupted download is recognizably incomplete', async () => {
    const engine = new LongExport();
    engine.failAt = 3;
    const { raw, path, log } = await download(engine);
    const response = await raw('GET', `${path}/0/download`);
    await expect(response.arrayBuffer()).rejects.toThrow();
    expect(log).toContainEqual(
      expect.objectContaining({ level: 'error', event: 'download_failed', error: 'the disk is gone' }),
    );
  });
});
