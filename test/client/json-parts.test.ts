import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonParts } from '../../src/client/json-slices.ts';

const seed = 5;

test('the parts join to the output of JSON.stringify, however small they are', () => {
  const value = fc.anything({ withDate: true, withSparseArray: true, withObjectString: true });
  fc.assert(
    fc.property(value, fc.integer({ min: 0, max: 30 }), (given, heaviest) => {
      expect([...jsonParts(given, heaviest)].join('')).toBe(JSON.stringify(given) ?? 'null');
    }),
    { seed, numRuns: 2000 },
  );
});

test('no part is large, even with deep values or long strings', () => {
  const entries = Array.from({ length: 50_000 }, (_, index) => ({ token: 't', logprob: -index / 7 }));
  const texts = Array.from({ length: 500 }, () => 'x'.repeat(10_000));
  const group = {
    trajectories: [{ messages_and_choices: [{ logprobs: { content: entries } }], logs: texts }],
  };
  const parts = [...jsonParts({ trajectory_groups: [group] })];
  expect(parts.join('')).toBe(JSON.stringify({ trajectory_groups: [group] }));
  expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(150_000);
});
