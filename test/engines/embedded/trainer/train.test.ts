import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type {
  GraphCall,
  TrainerCall,
  WorkerSettings,
} from '../../../../src/engines/embedded/threads/worker-messages.ts';
import { WorkerThread } from '../../../../src/engines/embedded/threads/worker-thread.ts';
import { inMessages, train } from '../../../../src/engines/embedded/trainer/train.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { base, batchOf } from '../support.ts';

const datum = (tokens: number) => ({
  tokens: Array.from({ length: tokens }, (_, index) => index),
  spans: [],
});

test('a large batch is sent to the trainer in order, in messages of few tokens or of one datum', () => {
  const datums = [3, 4, 1, 20, 2, 2, 6, 7].map(datum);
  const messages = inMessages(datums, 8);
  expect(messages.flat()).toEqual(datums);
  expect(messages.map((message) => message.map(({ tokens }) => tokens.length))).toEqual([
    [3, 4, 1],
    [20],
    [2, 2],
    [6],
    [7],
  ]);
  expect(inMessages([], 8)).toEqual([]);
});

test('when a thread that runs graphs ends, its job fails, and the trainer trains the next one', async () => {
  const settings: WorkerSettings = {
    runtime: 'auto',
    device: 'cpu',
    checkpoints: [],
    threads: 1,
    largestBatch: 1,
    prefixCacheBytes: 0,
    trainingBytes: 2 ** 30,
    logitsProcessors: {},
    threadHeapBytes: 512 * 2 ** 20,
    threadTimeoutMs: 60_000,
  };
  const source = new URL('../../../../src/engines/embedded/trainer/', import.meta.url);
  const trainer = new WorkerThread<TrainerCall>(new URL('worker.ts', source), settings);
  const ending = new WorkerThread<GraphCall>(new URL('modules/ending-graphs.ts', import.meta.url), settings);
  const lasting = new WorkerThread<GraphCall>(new URL('graph-worker.ts', source), settings);
  onTestFinished(async () => {
    await Promise.all([trainer, ending, lasting].map((thread) => thread.close()));
  });
  const folder = await temporaryFolder();
  const span = { start: 1, length: 2, sampling: plainSampling, constraint: null, weight: 1 };
  const datums = [{ tokens: [70, 71, 72], spans: [{ ...span, logprobs: [-1, -2], advantage: 1 }] }];
  const job = (name: string, threads: readonly WorkerThread<GraphCall>[]) =>
    train(
      { trainer: trainer.running, graphs: threads.map(({ running }) => running), graphsOfTeacher: () => [] },
      { from: base, folder: join(folder, name), batches: [batchOf(datums)], onStep: () => undefined },
    );
  await expect(job('first', [ending, lasting])).rejects.toMatchObject({
    code: 'worker_died',
    // Whichever comes first: the end of the thread, or that of the trainer's connection with it.
    message: expect.stringMatching(/exit code 3|runs the training graphs has ended/),
  });
  expect(ending.running.isDead).toBe(false);
  await job('second', [lasting]);
  expect(existsSync(join(folder, 'first'))).toBe(false);
  expect(existsSync(join(folder, 'second'))).toBe(true);
});
