import { expect, test } from 'vitest';
import { inMessages } from '../../../../src/engines/embedded/trainer/train.ts';

const datum = (tokens: number) => ({
  tokens: Array.from({ length: tokens }, (_, index) => index),
  spans: [],
});

test('a large batch is sent to the trainer in order, in messages of few tokens or of one datum', () => {
  const datums = [3, 4, 1, 20, 2, 2, 6, 7].map(datum);
  const messages = inMessages(datums, 8);
  expect(messages.flat()).toEqual(datums);
  expect(messages.map((message) => message.map(({ tokens }) => tokens.length))).toEqual([
    [3, 4, 1],
    [20],
    [2, 2],
    [6],
    [7],
  ]);
  expect(inMessages([], 8)).toEqual([]);
});
