import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { countGrace, withGrace } from '../../src/training/grace.ts';

const forever = (signal: AbortSignal) => sleep(2 ** 30, undefined, { signal });

test('work with a grace period may finish after the run is stopped', async () => {
  const stop = new AbortController();
  const work = withGrace(stop.signal, 60_000, async (signal) => {
    stop.abort(new Error('Ctrl-C'));
    expect(signal.aborted).toBe(false);
    return 'done';
  });
  expect(await work).toBe('done');
});

test('work that does not finish is aborted after the grace period, with the reason of the stop', async () => {
  const stop = new AbortController();
  const reason = new Error('Ctrl-C');
  const early = withGrace(stop.signal, 1, (signal) => forever(signal));
  stop.abort(reason);
  await expect(early).rejects.toMatchObject({ cause: reason });
  const late = withGrace(stop.signal, 1, (signal) => forever(signal));
  await expect(late).rejects.toMatchObject({ cause: reason });
});

test('without a signal nothing aborts the work', async () => {
  expect(await withGrace(undefined, 1, async (signal) => signal.aborted)).toBe(false);
});

test('all such work shares one grace period from the stop, with at least a second for each', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  try {
    const stop = new AbortController();
    countGrace(stop.signal);
    stop.abort(new Error('Ctrl-C'));
    vi.advanceTimersByTime(6000);
    const ended: string[] = [];
    const work = (name: string) =>
      withGrace(
        stop.signal,
        10_000,
        (signal) =>
          new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      ).catch(() => ended.push(name));
    void work('first');
    await vi.advanceTimersByTimeAsync(3999);
    expect(ended).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toEqual(['first']);
    void work('late');
    await vi.advanceTimersByTimeAsync(999);
    expect(ended).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toEqual(['first', 'late']);
  } finally {
    vi.useRealTimers();
  }
});
