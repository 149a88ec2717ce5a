import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { WorkerSettings } from '../../../../src/engines/embedded/threads/worker-messages.ts';
import { WorkerThread } from '../../../../src/engines/embedded/threads/worker-thread.ts';
import { whileBusy } from '../../../support/while-busy.ts';

const settings = {
  runtime: 'auto',
  device: 'cpu',
  checkpoints: [],
  threads: 1,
  largestBatch: 1,
  prefixCacheBytes: 0,
  trainingBytes: 2 ** 30,
  logitsProcessors: {},
  threadHeapBytes: 64 * 2 ** 20,
  threadTimeoutMs: 200,
} as const;

const open = (start: WorkerSettings = settings) =>
  new WorkerThread<string>(new URL('modules/worker.ts', import.meta.url), start, { closeTimeoutMs: 1 });

const codeOf = (call: Promise<unknown>) => call.then(String, (error: { code: string }) => error.code);

describe('a worker thread', () => {
  it('fails the calls in flight when it dies, and is started again', async () => {
    const thread = open();
    const idle = thread.running.whileAlive(new Promise(() => undefined));
    const died = { code: 'worker_died', message: expect.stringContaining('out of luck') };
    await Promise.all(
      [thread.call('nothing'), thread.call('fail'), idle].map((call) =>
        expect(call).rejects.toMatchObject(died),
      ),
    );
    expect(await thread.call('echo')).toBe('echo');
    await thread.close();
  });

  it('is ended when it is silent for too long, and is started again', async () => {
    const thread = open();
    const died = { code: 'worker_died', message: expect.stringContaining('silent for 200 ms') };
    await expect(thread.call('hang')).rejects.toMatchObject(died);
    await thread.check();
    expect(await thread.call('echo')).toBe('echo');
    await thread.close();
  });

  it.each([
    ['its modules never end', 'for (;;);'],
    ['it waits for something that never comes', 'setInterval(() => {}, 1000);'],
  ])('is ended when it does not start, because %s', async (_, source) => {
    const thread = new WorkerThread<string>(new URL(`data:text/javascript,${source}`), settings, {
      closeTimeoutMs: 1,
      startTimeoutMs: 100,
    });
    const died = { code: 'worker_died', message: expect.stringContaining('did not start within 100 ms') };
    await expect(thread.running.ready).rejects.toMatchObject(died);
    await expect(thread.call('echo')).rejects.toMatchObject(died);
    await thread.close();
  });

  it.skipIf(process.platform !== 'linux')(
    'may wait for a processor as long as it must, and is ended when it hangs on a busy machine',
    async () => {
      const thread = open({ ...settings, threadTimeoutMs: 400 });
      const died = { code: 'worker_died', message: expect.stringContaining('silent for 400 ms') };
      await whileBusy(async () => {
        expect(await thread.call('compute')).toBe('computed');
        await expect(thread.call('hang')).rejects.toMatchObject(died);
        await expect(thread.call('sleep')).rejects.toMatchObject(died);
      });
      await thread.close();
    },
  );

  it('may be in the native runtime for as long as that takes', async () => {
    const thread = open();
    expect(await thread.call('run')).toBe('done');
    await thread.close();
  });

  it('fails a call that cannot be sent alone, whatever else is sent with it', async () => {
    const thread = new WorkerThread<unknown>(new URL('modules/worker.ts', import.meta.url), settings, {
      closeTimeoutMs: 1,
    });
    const [first, unsent, second] = await Promise.allSettled(
      ['echo', () => 'a function', 'echo'].map((call) => thread.call(call)),
    );
    expect([first, second]).toEqual(Array(2).fill({ status: 'fulfilled', value: 'echo' }));
    expect(unsent).toMatchObject({ status: 'rejected', reason: { name: 'DataCloneError' } });
    await thread.close();
  });

  it('is told of a call whose signal aborts, which is rejected at once', async () => {
    const thread = open();
    const stop = new AbortController();
    const never = thread.call('nothing', { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(never).rejects.toThrow('enough');
    await expect(thread.call('echo', { signal: stop.signal })).rejects.toThrow('enough');
    expect(await thread.call('cancelled')).toEqual([0]);
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
    await thread.close();
  });

  it('fails the calls in flight at once when it is closed, and is terminated if it does not end', async () => {
    const thread = open();
    const call = codeOf(thread.call('hang'));
    const closed = thread.close();
    expect(await Promise.race([call, closed])).toBe('engine_closed');
    await closed;
    expect(await codeOf(thread.call('echo'))).toBe('engine_closed');
    await thread.close();
  });

  it('can be closed before it was started, and while it starts', async () => {
    const never = open();
    await never.close();
    expect(await codeOf(never.call('echo'))).toBe('engine_closed');
    const early = open();
    const starting = codeOf(early.running.ready);
    const call = codeOf(early.call('nothing'));
    await early.close();
    expect(await call).toBe('engine_closed');
    // It was ready before it was terminated, or it was not.
    expect(['none', 'engine_closed']).toContain(await starting);
  });
});
