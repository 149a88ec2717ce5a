import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fromPieces, toPieces } from '../../../src/service/json/pieces.ts';

it('gives every value of JSON as it was', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), async (value) => {
      expect(JSON.stringify(await fromPieces(toPieces(value)))).toBe(JSON.stringify(value));
    }),
    { seed: 20261128 },
  );
});

const numbers = Array.from({ length: 30_000 }, (_, index) => index / 7);
const words = Object.fromEntries(numbers.map((number) => [`word-${number}`, `${number}`]));

it.each([
  ['a long list', numbers],
  ['long lists in lists', [[numbers, 1, [], numbers], null, { numbers }]],
  ['a list of long texts', numbers.slice(0, 50).map((number) => `${number}`.padEnd(100_000, 'ü'))],
  ['an object with many members', words],
  ['objects in lists', Array(5000).fill({ a: [1, { b: undefined }], c: 12n })],
  [
    'a member that JavaScript would take for a prototype',
    JSON.parse(`{"__proto__":${JSON.stringify(numbers)}}`),
  ],
])('cuts what is long, so that no piece is: %s', async (_, value) => {
  const pieces = toPieces(value);
  expect(pieces.length).toBeGreaterThan(5);
  const read = await fromPieces(pieces);
  expect(read).toEqual(value);
  expect(Object.getPrototypeOf(read)).toBe(Object.getPrototypeOf(value));
  for (const { length } of pieces) expect(length).toBeLessThan(400_000);
});
