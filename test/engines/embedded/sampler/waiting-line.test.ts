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

  it('lets tenants take turns within a priority, each with its oldest', () => {
    const line = new WaitingLine<string>();
    const add = (item: string, priority = 0) =>
      line.add(item, { priority, slots: 1, tenant: item.charAt(0) });
    for (const item of ['a1', 'a2', 'a3', 'a4']) add(item);
    add('b1');
    expect(line.admit(3)).toEqual(['a1', 'b1', 'a2']);
    add('c1');
    add('a0', -1);
    add('b2');
    // Who has waited for nobody yet does not come after all that others still have.
    expect(line.admit(9)).toEqual(['a0', 'c1', 'b2', 'a3', 'a4']);
    add('a5');
    add('b3');
    expect(line.admit(9)).toEqual(['a5', 'b3']);
  });

  it('counts slots, so that what needs many does not get more of them', () => {
    const line = new WaitingLine<string>();
    for (const item of ['a1', 'a2']) line.add(item, { priority: 0, slots: 4, tenant: 'a' });
    for (let at = 1; at <= 6; at++) line.add(`b${at}`, { priority: 0, slots: 1, tenant: 'b' });
    expect(line.admit(20)).toEqual(['a1', 'b1', 'b2', 'b3', 'b4', 'a2', 'b5', 'b6']);
  });

  it('gives tenants that always have something waiting as much, whatever comes and goes', () => {
    const ask = fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), leaves: fc.boolean() });
    fc.assert(
      fc.property(fc.array(ask, { maxLength: 100 }), fc.integer({ min: 1, max: 4 }), (asks, free) => {
        const line = new WaitingLine<string>();
        // Two that never run dry, beside whatever else comes.
        for (let at = 0; at < 500; at++)
          for (const tenant of ['x', 'y']) line.add(tenant, { priority: 0, slots: 1, tenant });
        const served = { x: 0, y: 0 };
        for (const { tenant, leaves } of asks) {
          line.add(tenant, { priority: 0, slots: 1, tenant });
          if (leaves) line.remove((item) => item === tenant);
          for (const item of line.admit(free)) if (item === 'x' || item === 'y') served[item]++;
          expect(Math.abs(served.x - served.y)).toBeLessThanOrEqual(1);
        }
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

  it('lets others have turns also beside a crowd that has waited five minutes', () => {
    let now = 0;
    const line = new WaitingLine<string>(() => now);
    for (const item of ['a1', 'a2', 'a3', 'a4']) line.add(item, { priority: 0, slots: 1, tenant: 'a' });
    now = overdueMs;
    for (const item of ['b1', 'b2']) line.add(item, { priority: 0, slots: 1, tenant: 'b' });
    expect(line.admit(9)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
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
