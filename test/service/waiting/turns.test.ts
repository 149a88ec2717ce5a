import { describe, expect, onTestFinished, test } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Caller } from '../../../src/engines/engine.ts';
import { EngineError } from '../../../src/engines/engine.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { KeyStore, startService } from '../../../src/service/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

const messages = [{ role: 'user', content: 'hi' }];
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** A service that checks constraints when they are released, or cancels them when no request waits for them. */
class CheckingEngine extends ScriptedEngine {
  readonly asked: Caller[] = [];
  letThrough: (() => void) | null = null;

  override checkConstraint(_model: string, _constraint: Constraint, caller: Caller = {}): Promise<void> {
    this.asked.push(caller);
    return new Promise((resolve, reject) => {
      this.letThrough = resolve;
      caller.signal?.addEventListener('abort', () => reject(caller.signal?.reason));
    });
  }
}

describe('a request that waits for the check of its constraint', () => {
  const wish = (regex: string) => ({ messages, structured_outputs: { regex } });

  test('counts for its key, and frees its slot when its client disconnects', async () => {
    const engine = new CheckingEngine();
    const { service, call, dataFolder } = await start({ engine });
    const keys = await KeyStore.open(dataFolder);
    onTestFinished(() => keys.close());
    const { id, key } = keys.create('one');
    const usedSlots = async () => (await call('GET', '/v1/system-check')).body.inference_queue.in_hand;
    const leave = new AbortController();
    const leaving = [1, 2, 3].map((at) =>
      fetch(`${service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { ...bearer(key), 'content-type': 'application/json' },
        body: JSON.stringify(wish(`a${at}`)),
        signal: leave.signal,
      }),
    );
    await expect.poll(() => engine.asked).toHaveLength(3);
    expect(engine.asked.map(({ tenant }) => tenant)).toEqual([id, id, id]);
    expect(await usedSlots()).toBe(3);
    leave.abort();
    for (const one of leaving) await expect(one).rejects.toThrow();
    await expect.poll(() => usedSlots()).toBe(0);
    expect(engine.asked.every(({ signal }) => signal?.aborted)).toBe(true);
  });

  test('shares one check with equal requests, which continues when the first client disconnects', async () => {
    const engine = new CheckingEngine();
    const { service, call, chat } = await start({ engine });
    const leave = new AbortController();
    const first = fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...bearer('test-key'), 'content-type': 'application/json' },
      body: JSON.stringify(wish('same')),
      signal: leave.signal,
    });
    await expect.poll(() => engine.asked).toHaveLength(1);
    const second = chat(wish('same'));
    const usedSlots = async () => (await call('GET', '/v1/system-check')).body.inference_queue.in_hand;
    await expect.poll(() => usedSlots()).toBe(2);
    leave.abort();
    await expect(first).rejects.toThrow();
    await expect.poll(() => usedSlots()).toBe(1);
    engine.letThrough?.();
    expect((await second).status).toBe(200);
    expect(engine.asked).toHaveLength(1);
  });

  test('is rejected with Retry-After if too many wait', async () => {
    const engine = new ScriptedEngine();
    engine.checkConstraint = async () => {
      throw new EngineError(
        'constraints_busy',
        'Too many constraints are waiting to be compiled. Try again.',
      );
    };
    const { chat } = await start({ engine });
    const { status, headers, body } = await chat(wish('a'));
    expect([status, body.error.code, headers.get('retry-after')]).toEqual([503, 'constraints_busy', '1']);
  });
});

test('a reply counts for its key, so that keys take turns within a model', async () => {
  const { call, engine, dataFolder } = await start();
  const keys = await KeyStore.open(dataFolder);
  onTestFinished(() => keys.close());
  const { id, key } = keys.create('one');
  await call('POST', '/v1/chat/completions', { messages }, bearer(key));
  await call('POST', '/v1/chat/completions', { messages });
  expect(engine.requests.map(({ tenant }) => tenant)).toEqual([id, 'own key']);
});

test('one token does not wait for the many requests of another key', async () => {
  const engine = await createEmbeddedEngine({ threads: 1, largestBatch: 2 });
  const dataFolder = await temporaryFolder();
  const service = await startService({ engine, dataFolder, apiKey: 'test-key', log: () => {} });
  const keys = await KeyStore.open(dataFolder);
  onTestFinished(async () => {
    keys.close();
    await service.close();
    await engine.close();
  });
  const [crowded, lone] = [keys.create('crowd'), keys.create('lone')];
  const ended: string[] = [];
  const ask = async (name: string, key: string, max_tokens: number) => {
    const response = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...bearer(key), 'content-type': 'application/json' },
      body: JSON.stringify({ messages, max_tokens, ignore_eos: true }),
    });
    await response.text();
    ended.push(name);
  };
  const crowd = Array.from({ length: 24 }, () => ask('crowd', crowded.key, 40));
  await expect.poll(() => ended).toContain('crowd');
  await Promise.all([ask('lone', lone.key, 1), ...crowd]);
  // Requests with slots continue to their end; among the waiting ones it is the next.
  expect(ended.indexOf('lone')).toBeLessThan(20);
}, 30_000);
