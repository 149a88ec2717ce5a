import { expect, test } from 'vitest';
import { startTimer, withDeadline } from '../../src/util/deadline.ts';

const late = new Error('late');
const never = () => new Promise<string>(() => undefined);
const options = { timeoutMs: 60_000, signal: undefined, timedOut: () => late };

test('returns the result of the work, or throws its error, synchronous or not', async () => {
  expect(await withDeadline(options, () => 'now')).toBe('now');
  expect(await withDeadline(options, async () => 'later')).toBe('later');
  await expect(
    withDeadline(options, () => {
      throw new RangeError('at once');
    }),
  ).rejects.toThrow('at once');
});

test('ends at its deadline, and aborts the work with the same reason', async () => {
  let reason: unknown;
  const ending = withDeadline({ ...options, timeoutMs: 5 }, (signal) => {
    signal.addEventListener('abort', () => {
      reason = signal.reason;
    });
    return never();
  });
  await expect(ending).rejects.toBe(late);
  expect(reason).toBe(late);
});

test('ends with the reason of its signal, before or while it waits', async () => {
  const reason = new Error('stopped');
  await expect(withDeadline({ ...options, signal: AbortSignal.abort(reason) }, never)).rejects.toBe(reason);
  const stop = new AbortController();
  const waiting = withDeadline({ ...options, signal: stop.signal }, never);
  stop.abort(reason);
  await expect(waiting).rejects.toBe(reason);
});

test('a deadline longer than any timer never expires', () => {
  const timer = startTimer(2 ** 40, () => {
    throw new Error('fired');
  });
  expect(timer.clear()).toBeUndefined();
});
