import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type HeldPlaces, Places } from '../../src/service/admission/places.ts';

const seed = 20261121;

describe('places', () => {
  test('are never more than the limit, whoever comes and goes, and all are free in the end', () => {
    const action = fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      amount: fc.integer({ min: 1, max: 30 }),
      what: fc.constantFrom('take', 'add', 'release'),
      which: fc.nat(),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.array(action), (limit, actions) => {
        const places = new Places(limit, () => 0);
        const held: { place: HeldPlaces; amount: number }[] = [];
        for (const { tenant, amount, what, which } of actions) {
          const one = held[which % Math.max(1, held.length)];
          if (what === 'take') {
            const place = places.take(tenant, amount);
            if (place) held.push({ place, amount });
          } else if (one && what === 'add' && one.place.add(amount)) one.amount += amount;
          else if (one && what === 'release') {
            one.place.release();
            one.place.release();
            one.amount = 0;
          }
          expect(places.taken).toBe(held.reduce((sum, { amount: own }) => sum + own, 0));
          expect(places.taken).toBeLessThanOrEqual(limit);
        }
        for (const { place } of held) place.release();
        expect([places.taken, places.oldestMs]).toEqual([0, 0]);
        expect(places.take('a', limit)).not.toBeNull();
      }),
      { seed },
    );
  });

  test('leave room for whoever comes later, however many one tenant asks for', () => {
    const places = new Places(1700, () => 0);
    for (let count = 0; count < 5000; count++) places.take('greedy', 1);
    expect(places.taken).toBe(1600);
    for (let tenant = 0; tenant < 50; tenant++) expect(places.take(`modest ${tenant}`, 1)).not.toBeNull();
  });

  test('tell each who is sent away a later time, as fast as places become free', () => {
    let now = 0;
    const places = new Places(100, () => now);
    // Ten in a second leave, for a minute.
    for (let second = 0; second < 60; second++) {
      for (let count = 0; count < 10; count++) places.take('a', 1)?.release();
      now += 1000;
    }
    const waits = Array.from({ length: 100 }, () => places.retryAfterSeconds('a', 1));
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits);
    expect(waits[0]).toBe(1);
    expect(waits[99]).toBeGreaterThanOrEqual(9);
    expect(waits[99]).toBeLessThanOrEqual(12);
    // The times of one are not those of another.
    expect(places.retryAfterSeconds('b', 1)).toBe(1);
    // Nobody is sent away for longer than a minute.
    for (let count = 0; count < 10_000; count++) places.retryAfterSeconds('a', 1);
    expect(places.retryAfterSeconds('a', 1)).toBe(60);
    now += 120_000;
    expect(places.retryAfterSeconds('b', 1)).toBeLessThanOrEqual(60);
  });

  test('measure the pace anew after an idle time', () => {
    let now = 0;
    const places = new Places(100, () => now);
    places.take('a', 1)?.release();
    now = 600_000;
    const held = Array.from({ length: 100 }, (_, index) => places.take(`${index}`, 1));
    for (const place of held.slice(0, 50)) {
      now += 20;
      place?.release();
    }
    // Fifty in a second, and not fifty in ten minutes.
    const waits = Array.from({ length: 100 }, () => places.retryAfterSeconds('a', 1));
    expect(waits[99]).toBeGreaterThanOrEqual(2);
    expect(waits[99]).toBeLessThanOrEqual(3);
  });

  test('tell the time that the oldest has been there where nothing has left yet', () => {
    let now = 0;
    const places = new Places(1, () => now);
    places.take('a', 1);
    expect(places.retryAfterSeconds('b', 1)).toBe(1);
    now = 20_000;
    expect(places.oldestMs).toBe(20_000);
    expect(places.retryAfterSeconds('b', 1)).toBe(20);
    now = 200_000;
    expect(places.retryAfterSeconds('b', 1)).toBe(60);
  });
});
