import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { overdueMs, WaitingLine } from '../../../../src/engines/embedded/sampler/waiting-line.ts';

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

  it('takes what has waited five minutes before all others, whatever their priority', () => {
    let now = 0;
    const line = new WaitingLine<string>(() => now);
    line.add('patient', { priority: 9, slots: 1 });
    for (let item = 0; item < 3; item++) line.add(`pushing ${item}`, { priority: -1, slots: 1 });
    now = overdueMs - 1;
    expect(line.admit(1)).toEqual(['pushing 0']);
    now = overdueMs;
    line.add('late', { priority: -5, slots: 1 });
    expect(line.admit(2)).toEqual(['patient', 'pushing 1']);
    expect(line.admit(2)).toEqual(['pushing 2', 'late']);
    expect(line.empty).toBe(true);
  });

  it('keeps its order as a plain list would, through every mixture of comings and goings', () => {
    const action = fc.oneof(
      fc.record({ type: fc.constant('add' as const), priority: fc.integer({ min: -2, max: 2 }) }),
      fc.record({ type: fc.constant('admit' as const), free: fc.integer({ min: 0, max: 5 }) }),
      fc.record({ type: fc.constant('remove' as const), every: fc.integer({ min: 2, max: 5 }) }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
        const line = new WaitingLine<number>();
        let plain: { item: number; priority: number }[] = [];
        for (const [item, one] of actions.entries()) {
          if (one.type === 'add') {
            line.add(item, { priority: one.priority, slots: 1 });
            plain.push({ item, priority: one.priority });
            plain = plain.toSorted((a, b) => a.priority - b.priority || a.item - b.item);
          } else if (one.type === 'admit') {
            expect(line.admit(one.free)).toEqual(plain.splice(0, one.free).map((place) => place.item));
          } else {
            const leaves = (candidate: number) => candidate % one.every === 0;
            expect(line.remove(leaves)).toEqual(
              plain.filter((place) => leaves(place.item)).map((place) => place.item),
            );
            plain = plain.filter((place) => !leaves(place.item));
          }
          expect(line.count).toBe(plain.length);
        }
      }),
      { seed },
    );
  });
});
