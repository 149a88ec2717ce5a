import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { inSlices, Slices } from '../../src/service/slices.ts';

/** Takes longer than a slice. */
function work(): void {
  const until = performance.now() + 10;
  while (performance.now() < until);
}

test('a long list is worked through in slices, between which others have their turn', async () => {
  let turns = 0;
  let done = false;
  const others = (async () => {
    for (; !done; turns++) await nextTurn();
  })();
  const seen: string[] = [];
  for await (const [index, item] of inSlices(['a', 'b', 'c'])) {
    work();
    seen.push(item + index);
  }
  done = true;
  await others;
  expect(seen).toEqual(['a0', 'b1', 'c2']);
  expect(turns).toBeGreaterThanOrEqual(2);
});

test('of several long works one has its slice in a turn', async () => {
  const order: string[] = [];
  let done = 0;
  const run = async (name: string) => {
    const slices = new Slices();
    for (let piece = 0; piece < 3; piece++) {
      work();
      await slices.pause();
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
