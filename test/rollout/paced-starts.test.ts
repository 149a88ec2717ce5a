import { expect, test } from 'vitest';
import { PacedStarts } from '../../src/rollout/rollout-queue.ts';

test('what begins is spread over turns of the event loop, in order, and others are heard in between', async () => {
  const starts = new PacedStarts();
  const begun: number[] = [];
  /** How many had begun at each turn that somebody else was given. */
  const heard: number[] = [];
  let isOver = false;
  const listen = () => {
    heard.push(begun.length);
    if (!isOver) setImmediate(listen);
  };
  setImmediate(listen);
  await Promise.all(
    Array.from({ length: 1000 }, async (_, index) => {
      await starts.next();
      begun.push(index);
    }),
  );
  isOver = true;
  expect(begun).toEqual(Array.from({ length: 1000 }, (_, index) => index));
  const most = Math.max(...heard.map((count, at) => count - (heard[at - 1] ?? 0)));
  expect(most).toBeLessThanOrEqual(128);
});

test('a few begin at once', () => {
  const starts = new PacedStarts();
  expect(Array.from({ length: 128 }, () => starts.next())).toEqual(new Array(128).fill(undefined));
  expect(starts.next()).toBeInstanceOf(Promise);
});
