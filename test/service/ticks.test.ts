import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { accepted, turn } from '../../src/service/ticks.ts';

function compute(milliseconds: number): void {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
}

test('a crowd of short pieces of work leaves the event loop its turns, and goes in order', async () => {
  let turns = 0;
  let isOver = false;
  const others = (async () => {
    while (!isOver) {
      await nextTurn();
      turns++;
    }
  })();
  const done: number[] = [];
  const crowd = Array.from({ length: 400 }, async (_, index) => {
    await turn();
    compute(0.2);
    done.push(index);
  });
  await Promise.all(crowd);
  isOver = true;
  await others;
  expect(done).toEqual([...done.keys()]);
  // At most 1 ms of work and one piece in each.
  expect(turns).toBeGreaterThanOrEqual(40);
});

test('a piece of work alone waits for nothing', async () => {
  await nextTurn();
  await nextTurn();
  const order: string[] = [];
  setImmediate(() => order.push('next turn'));
  await turn();
  order.push('work');
  await nextTurn();
  expect(order).toEqual(['work', 'next turn']);
});

test('while connections come, a turn has room for one piece of work', async () => {
  await nextTurn();
  await nextTurn();
  accepted();
  const done: number[] = [];
  const crowd = Array.from({ length: 50 }, async (_, index) => {
    await turn();
    done.push(index);
  });
  for (let before = -1; before < done.length && done.length < 20; ) {
    before = done.length;
    accepted();
    await nextTurn();
    expect(done.length - before).toBeLessThanOrEqual(2);
  }
  await Promise.all(crowd);
  expect(done).toEqual([...done.keys()]);
});
