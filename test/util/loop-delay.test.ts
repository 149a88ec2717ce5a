import { expect, test } from 'vitest';
import { heldMs, LoopDelay } from '../../src/util/loop-delay.ts';

/** Computes for this much time of the processor, however long that takes. */
function compute(milliseconds: number): void {
  const before = process.threadCpuUsage();
  for (;;) {
    const { user, system } = process.threadCpuUsage(before);
    if (user + system >= milliseconds * 1000) return;
  }
}

test('sums the blocks in which code held the event loop, each call anew', async () => {
  using delay = new LoopDelay();
  for (let block = 0; block < 3; block++) {
    await new Promise((resolve) => setTimeout(resolve));
    compute(300);
  }
  const { loopDelayMs, loopHeldMs } = delay.take();
  // A block begins at a timer, which may be 20 ms before.
  expect(loopHeldMs).toBeGreaterThan(3 * 250);
  expect(loopDelayMs).toBeGreaterThan(250);
  expect(delay.take().loopHeldMs).toBe(0);
});

test('leaves out the time in which the process waited for a processor', () => {
  const from = { running: 1000, queued: 500 };
  expect(heldMs(3000, from, { running: 1010, queued: 3490 })).toBe(10);
  // Waiting for a child process takes no processor, and holds the loop all the same.
  expect(heldMs(3000, from, { running: 1000, queued: 500 })).toBe(3000);
});

test('counts only computations where the system does not tell how long a process waits', () => {
  const from = { running: 1000, queued: null };
  expect(heldMs(3000, from, { running: 1010, queued: null })).toBe(10);
  expect(heldMs(3000, from, { running: 4100, queued: null })).toBe(3000);
});
