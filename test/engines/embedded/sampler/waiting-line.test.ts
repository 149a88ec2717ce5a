import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WaitingLine } from '../../../../src/engines/embedded/sampler/waiting-line.ts';

const seed = 20261121;

describe('the waiting line', () => {
  it('admits the lowest priority value first, among equals the one that came first', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -3, max: 3 })), (priorities) => {
        const line = new WaitingLine<number>();
        for (const [item, priority] of priorities.entries()) line.add(item, { priority, slots: 1 });
        const expected = [...priorities.keys()].sort(
          (a, b) => (priorities[a] as number) - (priorities[b] as number) || a - b,
        );
        const half = Math.floor(expected.length / 2);
        expect([...line.admit(half), ...line.admit(expected.length)]).toEqual(expected);
        expect(line.empty).toBe(true);
      }),
      { seed },
    );
  });

  it('lets nothing overtake what needs more slots than are free', () => {
    const line = new WaitingLine<string>();
    line.add('wide', { priority: 0, slots: 4 });
    line.add('narrow', { priority: 0, slots: 1 });
    expect(line.admit(3)).toEqual([]);
    expect(line.admit(5)).toEqual(['wide', 'narrow']);
  });

  it('lets go of those that leave, wherever they stand', () => {
    const line = new WaitingLine<number>();
    for (const item of [1, 2, 3, 4]) line.add(item, { priority: -item, slots: 1 });
    expect(line.remove((item) => item % 2 === 0)).toEqual([4, 2]);
    expect(line.admit(9)).toEqual([3, 1]);
  });
});
