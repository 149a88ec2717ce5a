import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from '../../src/util/fair-queue.ts';

const seed = 20261121;
const overdueMs = 300_000;

describe('a fair queue', () => {
  it('takes the lowest priority value first, and the oldest item among equals', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -3, max: 3 })), (priorities) => {
        const queue = new FairQueue<number>();
        for (const [item, priority] of priorities.entries()) queue.add(item, { priority, slots: 1 });
        const expected = [...priorities.keys()].sort(
          (a, b) => (priorities[a] as number) - (priorities[b] as number) || a - b,
        );
        const half = Math.floor(expected.length / 2);
        expect([...queue.admit(half), ...queue.admit(expected.length)]).toEqual(expected);
        expect(queue.count).toBe(0);
      }),
      { seed },
    );
  });

  it('alternates between tenants within a priority, each with its oldest item', () => {
    const queue = new FairQueue<string>();
    const add = (item: string, priority = 0) =>
      queue.add(item, { priority, slots: 1, tenant: item.charAt(0) });
    for (const item of ['a1', 'a2', 'a3', 'a4']) add(item);
    add('b1');
    expect(queue.admit(3)).toEqual(['a1', 'b1', 'a2']);
    add('c1');
    add('a0', -1);
    add('b2');
    // A new tenant does not come after all items of the others.
    expect(queue.admit(9)).toEqual(['a0', 'c1', 'b2', 'a3', 'a4']);
    add('a5');
    add('b3');
    expect(queue.admit(9)).toEqual(['a5', 'b3']);
  });

  it('counts slots, so that tenants with large items get no more of them', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2']) queue.add(item, { priority: 0, slots: 4, tenant: 'a' });
    for (let at = 1; at <= 6; at++) queue.add(`b${at}`, { priority: 0, slots: 1, tenant: 'b' });
    expect(queue.admit(20)).toEqual(['a1', 'b1', 'b2', 'b3', 'b4', 'a2', 'b5', 'b6']);
  });

  it('gives tenants with a constant backlog equal shares, whatever others do', () => {
    const ask = fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), leaves: fc.boolean() });
    fc.assert(
      fc.property(fc.array(ask, { maxLength: 100 }), fc.integer({ min: 1, max: 4 }), (asks, free) => {
        const queue = new FairQueue<string>();
        // Two tenants with a constant backlog, among others.
        for (let at = 0; at < 500; at++)
          for (const tenant of ['x', 'y']) queue.add(tenant, { priority: 0, slots: 1, tenant });
        const served = { x: 0, y: 0 };
        for (const { tenant, leaves } of asks) {
          queue.add(tenant, { priority: 0, slots: 1, tenant });
          if (leaves) queue.remove((item) => item === tenant);
          for (const item of queue.admit(free)) if (item === 'x' || item === 'y') served[item]++;
          expect(Math.abs(served.x - served.y)).toBeLessThanOrEqual(1);
        }
      }),
      { seed },
    );
  });

  it('takes nothing before an item that needs more slots than are free', () => {
    const queue = new FairQueue<string>();
    queue.add('wide', { priority: 0, slots: 4 });
    queue.add('narrow', { priority: 0, slots: 1 });
    expect(queue.admit(3)).toEqual([]);
    expect(queue.admit(5)).toEqual(['wide', 'narrow']);
  });

  it('removes items from any position', () => {
    const queue = new FairQueue<number>();
    for (const item of [1, 2, 3, 4]) queue.add(item, { priority: -item, slots: 1 });
    expect(queue.remove((item) => item % 2 === 0)).toEqual([4, 2]);
    expect(queue.admit(9)).toEqual([3, 1]);
  });

  it('takes an overdue item before all priorities', () => {
    let now = 0;
    const queue = new FairQueue<string>({ overdueMs, now: () => now });
    queue.add('patient', { priority: 9, slots: 1 });
    for (let item = 0; item < 3; item++) queue.add(`pushing ${item}`, { priority: -1, slots: 1 });
    now = overdueMs - 1;
    expect(queue.admit(1)).toEqual(['pushing 0']);
    now = overdueMs;
    queue.add('late', { priority: -5, slots: 1 });
    expect(queue.admit(2)).toEqual(['patient', 'pushing 1']);
    expect(queue.admit(2)).toEqual(['pushing 2', 'late']);
    expect(queue.count).toBe(0);
  });

  it('alternates with other tenants even if one has many overdue items', () => {
    let now = 0;
    const queue = new FairQueue<string>({ overdueMs, now: () => now });
    for (const item of ['a1', 'a2', 'a3', 'a4']) queue.add(item, { priority: 0, slots: 1, tenant: 'a' });
    now = overdueMs;
    for (const item of ['b1', 'b2']) queue.add(item, { priority: 0, slots: 1, tenant: 'b' });
    expect(queue.admit(9)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('keeps the order of a plain list through any mix of additions and removals', () => {
    const action = fc.oneof(
      fc.record({ type: fc.constant('add' as const), priority: fc.integer({ min: -2, max: 2 }) }),
      fc.record({ type: fc.constant('admit' as const), free: fc.integer({ min: 0, max: 5 }) }),
      fc.record({ type: fc.constant('remove' as const), every: fc.integer({ min: 2, max: 5 }) }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
        const queue = new FairQueue<number>();
        let plain: { item: number; priority: number }[] = [];
        for (const [item, one] of actions.entries()) {
          if (one.type === 'add') {
            queue.add(item, { priority: one.priority, slots: 1 });
            plain.push({ item, priority: one.priority });
            plain = plain.toSorted((a, b) => a.priority - b.priority || a.item - b.item);
          } else if (one.type === 'admit') {
            expect(queue.admit(one.free)).toEqual(plain.splice(0, one.free).map((entry) => entry.item));
          } else {
            const leaves = (candidate: number) => candidate % one.every === 0;
            expect(queue.remove(leaves)).toEqual(
              plain.filter((entry) => leaves(entry.item)).map((entry) => entry.item),
            );
            plain = plain.filter((entry) => !leaves(entry.item));
          }
          expect(queue.count).toBe(plain.length);
        }
      }),
      { seed },
    );
  });
});
