import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fromSource } from '../../support/programs.ts';
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
