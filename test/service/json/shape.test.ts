import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { requestLimits } from '../../../src/contract/index.ts';
import { RequestValidationError } from '../../../src/service/errors.ts';
import { checkShape } from '../../../src/service/json/parse.ts';

interface Shape {
  depth: number;
  containers: number;
  members: number;
  membersOfObject: number;
}

function shapeOf(value: unknown): Shape {
  if (typeof value !== 'object' || value === null)
    return { depth: 0, containers: 0, members: 0, membersOfObject: 0 };
  const inner = Object.values(value).map(shapeOf);
  const own = Array.isArray(value) ? 0 : inner.length;
  return {
    depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
    containers: inner.reduce((sum, { containers }) => sum + containers, 1),
    members: inner.reduce((sum, { members }) => sum + members, own),
    membersOfObject: Math.max(own, ...inner.map(({ membersOfObject }) => membersOfObject)),
  };
}

const unlimited = { depth: 1e9, containers: 1e9, members: 1e9, membersOfObject: 1e9, values: 1e9 };

const refuses = (text: string, limits: Partial<typeof unlimited>) => {
  try {
    checkShape(Buffer.from(text), { limits: { ...unlimited, ...limits } });
    return false;
  } catch (error) {
    if (error instanceof RequestValidationError) return true;
    throw error;
  }
};

describe('the counts of JSON', () => {
  it('equal those of a parser, whatever strings and names contain', () => {
    const text = fc.string({ unit: fc.constantFrom('"', '\\', '[', ']', '{', '}', 'a', '\n', ',') });
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 6 },
        fc.oneof(text, fc.integer(), fc.constant(null)),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(text, tie('value'), { maxKeys: 3 }),
      ),
    }));
    fc.assert(
      fc.property(value, fc.integer({ min: 0, max: 6 }), fc.boolean(), (given, limit, spaced) => {
        const json = JSON.stringify(given, null, spaced ? 2 : 0);
        const { depth, containers, members, membersOfObject } = shapeOf(given);
        expect(refuses(json, { depth: limit })).toBe(depth > limit);
        expect(refuses(json, { containers: limit })).toBe(containers > limit);
        expect(refuses(json, { members: limit })).toBe(members > limit);
        expect(refuses(json, { membersOfObject: limit })).toBe(membersOfObject > limit);
      }),
      { seed: 20261121, numRuns: 2000 },
    );
  });

  it('may reach the limit and not exceed it, in arrays and in objects', () => {
    const { depth, containers, members, membersOfObject, values } = requestLimits;
    const object = (count: number) => `{${'"a":1,'.repeat(count - 1)}"a":1}`;
    const objects = `${object(membersOfObject)},`.repeat(members / membersOfObject);
    const nested = (open: string, inside: string, close: string, times: number) =>
      open.repeat(times) + inside + close.repeat(times);
    for (const [fits, exceeds] of [
      [nested('[', '', ']', depth), nested('[', '', ']', depth + 1)],
      [nested('{"a":', '1', '}', depth), nested('{"a":', '1', '}', depth + 1)],
      [`[${'[],'.repeat(containers - 2)}[]]`, `[${'[],'.repeat(containers - 1)}[]]`],
      [object(membersOfObject), object(membersOfObject + 1)],
      [`[${objects}0]`, `[${objects}{"a":1}]`],
      [`[${'1,'.repeat(values - 1)}1]`, `[${'1,'.repeat(values)}1]`],
    ] as const) {
      expect(refuses(fits, requestLimits)).toBe(false);
      expect(refuses(exceeds, requestLimits)).toBe(true);
    }
  });

  it.each([
    ['brackets without end', '['.repeat(16 * 2 ** 20)],
    ['quotes that are escaped', `"${'\\"'.repeat(8 * 2 ** 20)}`],
    ['backslashes without end', `"${'\\'.repeat(16 * 2 ** 20)}`],
    ['backslashes up to a quote', `["${'\\\\'.repeat(8 * 2 ** 20)}"]`],
  ])('are found in one pass over %s', { tags: ['long'] }, (_what, text) => {
    // A scanner that restarts at each character would exceed the test's timeout.
    refuses(text, {});
  });
});
