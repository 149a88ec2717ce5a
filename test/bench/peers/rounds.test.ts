import { expect, it } from 'vitest';
import { measureInTurn, median, medianRatio } from './rounds.ts';

it('measures in turn, so that a machine that slows down changes figures and not ratios', async () => {
  let speed = 1;
  const order: string[] = [];
  const measure = (name: string, rate: number) => async () => {
    order.push(name);
    return rate * speed;
  };
  const { ours, theirs } = await measureInTurn(3, {
    ours: measure('ours', 300),
    theirs: async () => {
      const rate = await measure('theirs', 200)();
      speed /= 2;
      return rate;
    },
  });
  expect(order).toEqual(['ours', 'theirs', 'ours', 'theirs', 'ours', 'theirs']);
  expect(ours).toEqual([300, 150, 75]);
  expect(medianRatio(ours, theirs)).toBe(1.5);
});

it('takes the middle value, or the mean of the two in the middle, in any order', () => {
  expect(median([30, 10, 200])).toBe(30);
  expect(median([4, 1, 100, 2])).toBe(3);
});

it('goes on without one that cannot be measured, which costs its own rows only', async () => {
  const { ours, theirs, others } = await measureInTurn(2, {
    ours: async () => 3,
    theirs: async () => {
      throw new Error('no memory');
    },
    others: async () => 2,
  });
  expect([ours, theirs, others]).toEqual([[3, 3], [], [2, 2]]);
  expect([median(theirs), medianRatio(ours, theirs)]).toEqual([Number.NaN, Number.NaN]);
  const failing = async () => {
    throw new Error('our own');
  };
  await expect(measureInTurn(1, { ours: failing })).rejects.toThrow('our own');
});
