import { describe, expect, it } from 'vitest';
import { WorkerThread } from '../../../src/engines/embedded/threads/worker-thread.ts';
import type { EngineError } from '../../../src/engines/engine.ts';

const settings = {
  runtime: 'auto',
  threads: 1,
  largestBatch: 1,
  prefixCacheBytes: 0,
  logitsProcessors: {},
  threadHeapBytes: 64 * 2 ** 20,
  threadTimeoutMs: 200,
} as const;

function open() {
  const deaths: EngineError[] = [];
  const reports: string[] = [];
  const told = Promise.withResolvers<void>();
  const died = Promise.withResolvers<void>();
  const thread = new WorkerThread<{ type: string }, string>(
    new URL('modules/worker.ts', import.meta.url),
    settings,
    {
      onReport: (report) => {
        reports.push(report);
        told.resolve();
      },
      onDeath: (error) => {
        deaths.push(error);
        died.resolve();
      },
    },
    { closeTimeoutMs: 1 },
  );
  return { thread, deaths, reports, told: told.promise, died: died.promise };
}

describe('a worker thread', () => {
  it('fails what it has in hand when it dies, and is started again', async () => {
    const { thread, deaths, reports, told, died } = open();
    await thread.send({ type: 'fail' });
    await died;
    expect(deaths.map(({ code, message }) => [code, message])).toEqual([
      ['worker_died', expect.stringContaining('out of luck')],
    ]);
    await thread.send({ type: 'echo' });
    await told;
    expect(reports).toEqual(['echo']);
    await thread.close();
  });

  it('is ended when it is at one thing for too long, and is started again', async () => {
    const { thread, deaths, reports, told, died } = open();
    await thread.send({ type: 'hang' });
    await died;
    expect(deaths.map(({ code, message }) => [code, message])).toEqual([
      ['worker_died', expect.stringContaining('one thing for 200 ms')],
    ]);
    await thread.check();
    await thread.send({ type: 'echo' });
    await told;
    expect(reports).toEqual(['echo']);
    await thread.close();
  });

  it('may be in the native runtime for as long as that takes', async () => {
    const { thread, deaths, reports, told } = open();
    await thread.send({ type: 'run' });
    await told;
    expect([reports, deaths]).toEqual([['done'], []]);
    await thread.close();
  });

  it('fails what it has in hand at once when it is closed, and is terminated where it does not end', async () => {
    const { thread, deaths } = open();
    await thread.send({ type: 'hang' });
    const closed = thread.close();
    expect(deaths.map(({ code }) => code)).toEqual(['engine_closed']);
    await closed;
    await expect(thread.send({ type: 'echo' })).rejects.toMatchObject({ code: 'engine_closed' });
    await thread.close();
  });

  it('can be closed before it was started, and while it starts', async () => {
    const never = open();
    await never.thread.close();
    await expect(never.thread.start()).rejects.toMatchObject({ code: 'engine_closed' });
    const early = open();
    const starting = early.thread.start().catch((error: unknown) => error);
    await early.thread.close();
    // It was ready before it was terminated, or it was not.
    await starting;
    expect(new Set(early.deaths.map(({ code }) => code))).toEqual(new Set(['engine_closed']));
  });
});
