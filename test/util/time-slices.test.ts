import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { inTimeSlices, TimeSlices } from '../../src/util/time-slices.ts';

/** Takes longer than a slice. */
function work(): void {
  const until = performance.now() + 10;
  while (performance.now() < until);
}

test('a long list is processed in slices, and other work runs in between', async () => {
  let turns = 0;
  let done = false;
  const others = (async () => {
    for (; !done; turns++) await nextTurn();
  })();
  const seen: string[] = [];
  for await (const [index, item] of inTimeSlices(['a', 'b', 'c'])) {
    work();
    seen.push(item + index);
  }
  done = true;
  await others;
  expect(seen).toEqual(['a0', 'b1', 'c2']);
  expect(turns).toBeGreaterThanOrEqual(2);
});

test('only one of several pieces of long work has a slice per tick', async () => {
  const order: string[] = [];
  let done = 0;
  const run = async (name: string) => {
    const slices = new TimeSlices();
    for (let piece = 0; piece < 3; piece++) {
      if (slices.over) await slices.pause();
      work();
      order.push(name);
    }
    done++;
  };
  const watch = (async () => {
    while (done < 3) {
      await nextTurn();
      order.push('|');
    }
  })();
  await Promise.all([run('a'), run('b'), run('c'), watch]);
  const inOneTurn = order
    .join('')
    .split('|')
    .map((names) => names.length);
  expect(Math.max(...inOneTurn)).toBe(1);
  expect(
    order
      .filter((name) => name !== '|')
      .sort()
      .join(''),
  ).toBe('aaabbbccc');
});

test('work that starts at the same time shares the budget of one tick', async () => {
  const inTurn: number[] = [0];
  let done = 0;
  const run = async () => {
    const slices = new TimeSlices();
    if (slices.over) await slices.pause();
    work();
    inTurn.push((inTurn.pop() ?? 0) + 1);
    done++;
  };
  const watch = (async () => {
    for (; done < 16; inTurn.push(0)) await nextTurn();
  })();
  await Promise.all([...Array.from({ length: 16 }, run), watch]);
  // Each exceeds the budget of a tick; the first may begin within a started tick.
  expect(Math.max(...inTurn)).toBeLessThanOrEqual(2);
});

test('many short pieces finish in few ticks, and in order', async () => {
  let turns = 0;
  const done: number[] = [];
  const run = async (index: number) => {
    const slices = new TimeSlices();
    if (slices.over) await slices.pause();
    // As deep as a request may be.
    for (let step = 0; step < 20; step++) await null;
    done.push(index);
  };
  const slices = new TimeSlices();
  if (!slices.over) work();
  const crowd = Promise.all(Array.from({ length: 1000 }, (_, index) => run(index)));
  const watch = (async () => {
    for (; done.length < 1000; turns++) await nextTurn();
  })();
  await Promise.all([crowd, watch]);
  expect(done).toEqual([...done.keys()]);
  expect(turns).toBeLessThan(500);
});
