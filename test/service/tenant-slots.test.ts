import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BusyError, type HeldSlots, TenantSlots } from '../../src/service/admission/tenant-slots.ts';

const seed = 20261121;

const slotsOf = (limit: number, now: () => number) =>
  new TenantSlots({ limit, code: 'full', message: 'All slots are in use.', now });

/** The result, or null if no slot was free. */
function unlessBusy<Result>(take: () => Result): Result | null {
  try {
    return take();
  } catch (error) {
    expect(error).toBeInstanceOf(BusyError);
    return null;
  }
}

describe('slots', () => {
  test('never exceed the limit, and all are free after the last release', () => {
    const action = fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      amount: fc.integer({ min: 1, max: 30 }),
      what: fc.constantFrom('take', 'add', 'release'),
      which: fc.nat(),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.array(action), (limit, actions) => {
        const all = slotsOf(limit, () => 0);
        const held: { slots: HeldSlots; amount: number }[] = [];
        for (const { tenant, amount, what, which } of actions) {
          const one = held[which % Math.max(1, held.length)];
          if (what === 'take') {
            const slots = unlessBusy(() => all.take(tenant, amount));
            if (slots) held.push({ slots, amount });
          } else if (one && what === 'add' && one.amount > 0) {
            unlessBusy(() => {
              one.slots.add(amount);
              one.amount += amount;
            });
          } else if (one && what === 'release') {
            one.slots.release();
            one.slots.release();
            one.amount = 0;
          }
          expect(all.taken).toBe(held.reduce((sum, { amount: own }) => sum + own, 0));
          expect(all.taken).toBeLessThanOrEqual(limit);
        }
        for (const { slots } of held) slots.release();
        expect([all.taken, all.oldestMs]).toEqual([0, 0]);
        expect(unlessBusy(() => all.take('a', limit))).not.toBeNull();
      }),
      { seed },
    );
  });

  test('one tenant leaves slots for later tenants', () => {
    const all = slotsOf(1700, () => 0);
    for (let count = 0; count < 5000; count++) unlessBusy(() => all.take('greedy'));
    expect(all.taken).toBe(1600);
    for (let tenant = 0; tenant < 50; tenant++)
      expect(unlessBusy(() => all.take(`modest ${tenant}`))).not.toBeNull();
  });

  test('each rejection gets a later time, at the pace at which slots become free', () => {
    let now = 0;
    const all = slotsOf(100, () => now);
    // Ten a second are freed, for a minute.
    for (let second = 0; second < 60; second++) {
      for (let count = 0; count < 10; count++) all.take('a', 1).release();
      now += 1000;
    }
    const waits = Array.from({ length: 100 }, () => all.retryAfterSeconds('a', 1));
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits);
    expect(waits[0]).toBe(1);
    expect(waits[99]).toBeGreaterThanOrEqual(9);
    expect(waits[99]).toBeLessThanOrEqual(12);
    // Tenants have separate times.
    expect(all.retryAfterSeconds('b', 1)).toBe(1);
    // The longest time is a minute.
    for (let count = 0; count < 10_000; count++) all.retryAfterSeconds('a', 1);
    expect(all.retryAfterSeconds('a', 1)).toBe(60);
    now += 120_000;
    expect(all.retryAfterSeconds('b', 1)).toBeLessThanOrEqual(60);
  });

  test('the pace is measured anew after an idle time', () => {
    let now = 0;
    const all = slotsOf(100, () => now);
    all.take('a', 1).release();
    now = 600_000;
    const held = Array.from({ length: 100 }, (_, index) => all.take(`${index}`, 1));
    for (const slots of held.slice(0, 50)) {
      now += 20;
      slots.release();
    }
    // Fifty in a second, not fifty in ten minutes.
    const waits = Array.from({ length: 100 }, () => all.retryAfterSeconds('a', 1));
    expect(waits[99]).toBeGreaterThanOrEqual(2);
    expect(waits[99]).toBeLessThanOrEqual(3);
  });

  test('before the first release, the time is the age of the oldest holder', () => {
    let now = 0;
    const all = slotsOf(1, () => now);
    all.take('a', 1);
    expect(all.retryAfterSeconds('b', 1)).toBe(1);
    now = 20_000;
    expect(all.oldestMs).toBe(20_000);
    expect(all.retryAfterSeconds('b', 1)).toBe(20);
    now = 200_000;
    expect(all.retryAfterSeconds('b', 1)).toBe(60);
  });
});
