import { expect, test } from 'vitest';
import { inMessages } from '../../../src/engines/embedded/trainer-client.ts';

const datum = (tokens: number) => ({
  tokens: Array.from({ length: tokens }, (_, index) => index),
  spans: [],
});

test('a large batch crosses to the trainer in messages that keep its order, each of few tokens or one datum', () => {
  const datums = [3, 4, 1, 20, 2, 2, 6, 7].map(datum);
  const { first, last } = inMessages(datums, 8);
  expect([...first, last].flat()).toEqual(datums);
  expect([...first, last].map((message) => message.map(({ tokens }) => tokens.length))).toEqual([
    ...[[3, 4, 1], [20], [2, 2], [6]],
    [7],
  ]);
  expect(inMessages([], 8)).toEqual({ first: [], last: [] });
});
