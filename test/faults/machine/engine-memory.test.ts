import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Graph } from '../../../src/engines/embedded/onnx/graph.ts';
import { loadRuntime } from '../../../src/engines/embedded/runtime.ts';
import { fromFailure, toFailure } from '../../../src/engines/embedded/threads/worker-messages.ts';
import { unreadableCheckpoint } from '../../../src/engines/embedded/weights/checkpoint-files.ts';
import { EngineError } from '../../../src/engines/engine.ts';
import { Bench, base, batchOf, datumOf } from '../../engines/embedded/support.ts';
import { start } from '../../service/harness.ts';
import { temporaryFolder } from '../../support/files.ts';

const failing = (code: string) =>
  Object.assign(new Error(`${code}: it failed, read`), { code, syscall: 'read', errno: -1 });

describe('an allocation of the runtime that fails', () => {
  test('is reported as such, and the next run works', async () => {
    const runtime = await loadRuntime('onnxruntime-node', 1);
    const graph = new Graph();
    const shape = graph.input('shape', 'int64', ['axes']);
    graph.output('filled', graph.op('ConstantOfShape', [shape]), ['rows', 'columns']);
    const session = await runtime.session(graph.finish());
    const fill = (axis: number) => session.run({ shape: runtime.integer([axis, axis], [2]) });
    // 64 TiB.
    const failure = await fill(2 ** 22).then(() => null, toFailure);
    expect(failure?.code).toBe('out_of_memory');
    expect((await fill(2)).filled?.dims).toEqual([2, 2]);
    await session.release();
  });

  test('is a 503 for a chat', async () => {
    const { chat, engine } = await start();
    const heap = toFailure(new RangeError('Array buffer allocation failed'));
    engine.failGeneration = fromFailure(heap);
    const answer = await chat({});
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'out_of_memory' } } });
    expect(answer.headers.get('retry-after')).toBe('1');
    engine.failGeneration = null;
    expect((await chat({})).status).toBe(200);
  });
});

describe('what the system does to a thread', () => {
  test.each([
    ['ENOSPC', 'storage_full'],
    ['EMFILE', 'too_many_files'],
    ['EIO', 'storage_failed'],
    ['ENOMEM', 'out_of_memory'],
  ])('%s is told as a 503 of the service', async (systemCode, code) => {
    const { chat, engine } = await start();
    engine.failGeneration = fromFailure(structuredClone(toFailure(failing(systemCode))));
    expect(await chat({})).toMatchObject({ status: 503, body: { error: { code } } });
    // Weights that cannot be read now are not missing weights.
    const unread = unreadableCheckpoint('step-1', failing(systemCode));
    engine.failGeneration = fromFailure(structuredClone(toFailure(unread)));
    expect(await chat({})).toMatchObject({ status: 503, body: { error: { code } } });
  });

  test('missing weights are reported as not found', async () => {
    const { chat, engine } = await start();
    engine.failGeneration = unreadableCheckpoint('step-1', failing('ENOENT'));
    expect(await chat({})).toMatchObject({ status: 404, body: { error: { code: 'checkpoint_missing' } } });
  });
});

test('a trainer thread that dies between two steps fails its job with that reason, and the next job trains', async () => {
  const folder = await temporaryFolder();
  const bench = await Bench.open({
    logitsProcessors: { 'test.Late': new URL('modules/late.ts', import.meta.url) },
  });
  onTestFinished(() => bench.close());
  const processors = [{ name: 'test.Late', args: [], kwargs: { folder }, extra: {} }];
  const plain = bench.request('hello', 1, { constraint: null, maxTokens: 4 });
  const asked = { ...plain, sampling: { ...plain.sampling, processors } };
  const reply = await bench.engine.generate(asked);
  const batch = batchOf([datumOf(asked, reply, 1)]);
  const steps: number[] = [];
  /** Ends the thread while it waits for its next batch. */
  const ended = async () => {
    writeFileSync(join(folder, 'end'), '');
    while (!existsSync(join(folder, 'ended'))) await new Promise(setImmediate);
  };
  const train = (name: string) =>
    bench.engine.train({
      ...{ from: base, folder: join(folder, name), signal: undefined },
      batches: (async function* () {
        yield batch;
        if (name === 'first') await ended();
        yield batch;
      })(),
      onStep: () => steps.push(steps.length),
    });
  writeFileSync(join(folder, 'armed'), '');
  const failure: unknown = await train('first').then(
    () => null,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(EngineError);
  expect(failure).toMatchObject({
    code: 'worker_died',
    message: expect.stringContaining('between two steps'),
  });
  expect(steps).toEqual([0]);
  await train('second');
  expect(steps).toEqual([0, 1, 2]);
  expect(existsSync(join(folder, 'second'))).toBe(true);
});
