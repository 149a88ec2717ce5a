import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { readCheckpoint } from '../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource } from '../../support/programs.ts';
import { generateCheckpoint } from './checkpoint/generated.ts';
import { Bench, base, batchOf } from './support.ts';

const programOf = (name: string) => fileURLToPath(new URL(`${name}-program.ts`, import.meta.url));
const runProgram = (name: string, ...given: string[]) =>
  promisify(execFile)(process.execPath, [...fromSource, programOf(name), ...given]);

describe('closing the embedded engine', () => {
  it('fails every call at once, and the threads end by themselves, whatever they do', {
    tags: ['long'],
  }, async () => {
    // In a process of its own, which a thread that is torn out of the native runtime would take with it.
    const { stdout, stderr } = await runProgram('closing');
    expect(stderr).toBe('');
    const rounds = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const end = { order: ['settled', 'closed'], codes: ['engine_closed'], files: [] };
    const moments = ['starting', 'sampling', 'training'].map((moment) => ({ moment, ...end }));
    expect(rounds).toEqual([...moments, ...moments, ...moments]);
  });

  it('ends a job that waits for its next batch', async () => {
    const bench = await Bench.open();
    const waiting = Promise.withResolvers<void>();
    const never = Promise.withResolvers<void>();
    const job = (name: string) =>
      bench.engine.train({
        from: base,
        folder: `${bench.folder}/${name}`,
        batches: (async function* () {
          waiting.resolve();
          await never.promise;
          yield batchOf([]);
        })(),
        onStep: () => undefined,
      });
    const first = job('first').catch((error: unknown) => error);
    await waiting.promise;
    await bench.close();
    expect(await first).toMatchObject({ code: 'engine_closed' });
    await expect(job('second')).rejects.toMatchObject({ code: 'engine_closed' });
    never.resolve();
  });
});

describe('the signal of an opening', () => {
  it('ends its threads before the call rejects with its reason', async () => {
    const folder = await generateCheckpoint(await temporaryFolder(), 'qwen3');
    const stop = new AbortController();
    const threads: Worker[] = [];
    const note = (thread: Worker) => {
      threads.push(thread);
      stop.abort('enough');
    };
    process.on('worker', note);
    onTestFinished(() => void process.off('worker', note));
    const opening = createEmbeddedEngine({ threads: 1, checkpoints: [{ folder }], signal: stop.signal });
    await expect(opening).rejects.toBe('enough');
    expect(threads.length).toBeGreaterThan(0);
    // A thread that has ended has no number.
    expect(threads.map(({ threadId }) => threadId)).toEqual(threads.map(() => -1));
  });

  it('ends the reading of weights, and starts nothing when it has aborted before', async () => {
    const note = vi.fn();
    process.on('worker', note);
    onTestFinished(() => void process.off('worker', note));
    const folder = await generateCheckpoint(await temporaryFolder(), 'qwen3');
    await expect(readCheckpoint(folder, AbortSignal.abort('enough'))).rejects.toBe('enough');
    const signal = AbortSignal.abort('before');
    await expect(createEmbeddedEngine({ checkpoints: [{ folder: '/nowhere' }], signal })).rejects.toBe(
      'before',
    );
    expect(note).not.toHaveBeenCalled();
  });
});

describe('a process that ends while its embedded engine is busy', () => {
  it.each([
    { how: 'exit', code: 7, said: /^$/ },
    { how: 'throw', code: 1, said: /Error: not caught/ },
  ])('ends with its own status: $how', async ({ how, code, said }) => {
    await expect(runProgram('leaving', how)).rejects.toMatchObject({
      code,
      signal: null,
      stderr: expect.stringMatching(said),
    });
  });
});
