import { expect, test } from 'vitest';
import { deriveSeed, randomSource } from '../../src/trajectory/index.ts';

test('derived seeds repeat, differ by path, and are unsigned 32-bit integers', () => {
  const seeds = new Set<number>();
  for (let group = 0; group < 100; group++) {
    for (let rollout = 0; rollout < 100; rollout++) {
      const seed = deriveSeed(7, group, rollout);
      expect(seed).toBe(deriveSeed(7, group, rollout));
      expect(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32).toBe(true);
      seeds.add(seed);
    }
  }
  expect(seeds.size).toBeGreaterThan(9_990);
  expect(deriveSeed(7, 0, 1)).not.toBe(deriveSeed(7, 1, 0));
  expect(deriveSeed(2 ** 40 + 7)).not.toBe(deriveSeed(7));
});

test('a random source is uniform on [0, 1) and follows from its seed', () => {
  const numbers = (seed: number) => Array.from({ length: 10_000 }, randomSource(seed));
  const drawn = numbers(3);
  expect(drawn).toEqual(numbers(3));
  expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true);
  expect(drawn.reduce((sum, value) => sum + value, 0) / drawn.length).toBeCloseTo(0.5, 1);
});
