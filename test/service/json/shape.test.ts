import fc from 'fast-check';
import { expect, it } from 'vitest';
import { requestLimits } from '../../../src/contract/index.ts';
import { RequestValidationError } from '../../../src/service/errors.ts';
import { parseJson } from '../../../src/service/json/read-text.ts';

const refuses = (text: string, maxValues?: number) => {
  try {
    parseJson(Buffer.from(text), { maxValues });
    return false;
  } catch (error) {
    if (error instanceof RequestValidationError)
      return /^The JSON has more than/.test(error.issues[0]?.msg ?? '');
    throw error;
  }
};

const valuesIn = (value: unknown): number =>
  typeof value === 'object' && value !== null
    ? Object.values(value).reduce((sum: number, inner) => sum + valuesIn(inner), 1)
    : 1;

it('JSON is refused exactly when it has more values than the limit', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 1, max: 12 }), (value, limit) => {
      expect(refuses(JSON.stringify(value), limit)).toBe(valuesIn(value) > limit);
    }),
    { seed: 20261121, numRuns: 1000 },
  );
});

it('JSON may reach the limits and not exceed them, in arrays and in objects', () => {
  const { depth, membersOfObject, values } = requestLimits;
  const object = (members: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: members }, (_, at) => [`a${at}`, 1])));
  const nested = (open: string, close: string, times: number) =>
    `${open.repeat(times)}1${close.repeat(times)}`;
  for (const [fits, exceeds] of [
    [object(membersOfObject), object(membersOfObject + 1)],
    [nested('[', ']', depth), nested('[', ']', depth + 1)],
    [nested('{"a":', '}', depth), nested('{"a":', '}', 50 * depth)],
    [`[${'1,'.repeat(values - 2)}1]`, `[${'1,'.repeat(values - 1)}1]`],
  ] as const) {
    expect(refuses(fits)).toBe(false);
    expect(refuses(exceeds)).toBe(true);
  }
});

it('names that are those of every object count as any other', () => {
  expect(refuses('{"__proto__":{"a":[1,2]},"constructor":1}', 6)).toBe(false);
  expect(refuses('{"__proto__":{"a":[1,2]},"constructor":1}', 5)).toBe(true);
});
