import { setImmediate as nextTick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { accepted, tickTime } from '../../src/service/ticks.ts';

function compute(milliseconds: number): void {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
}

test('much short work leaves time for other ticks and runs in order', async () => {
  let ticks = 0;
  let isOver = false;
  const others = (async () => {
    while (!isOver) {
      await nextTick();
      ticks++;
    }
  })();
  const done: number[] = [];
  const crowd = Array.from({ length: 400 }, async (_, index) => {
    await tickTime();
    compute(0.2);
    done.push(index);
  });
  await Promise.all(crowd);
  isOver = true;
  await others;
  expect(done).toEqual([...done.keys()]);
  // At most 1 ms of work and one piece in each.
  expect(ticks).toBeGreaterThanOrEqual(40);
});

test('a single piece of work does not wait', async () => {
  await nextTick();
  await nextTick();
  const order: string[] = [];
  setImmediate(() => order.push('next tick'));
  await tickTime();
  order.push('work');
  await nextTick();
  expect(order).toEqual(['work', 'next tick']);
});

test('while connections arrive, a tick runs one piece of work', async () => {
  await nextTick();
  await nextTick();
  accepted();
  const done: number[] = [];
  const crowd = Array.from({ length: 50 }, async (_, index) => {
    await tickTime();
    done.push(index);
  });
  for (let before = -1; before < done.length && done.length < 20; ) {
    before = done.length;
    accepted();
    await nextTick();
    expect(done.length - before).toBeLessThanOrEqual(2);
  }
  await Promise.all(crowd);
  expect(done).toEqual([...done.keys()]);
});
