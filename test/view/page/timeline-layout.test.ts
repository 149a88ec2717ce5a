import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gapsIn, median, placeOn, tickLabel, ticksOf } from '../../../src/view/page/timeline/layout.ts';

const whole = { start: 1000, end: 3000 };

describe('places on a time axis', () => {
  it('are shares of its length, cut at its ends', () => {
    expect(placeOn(whole, { start: 1500, end: 2000 })).toEqual({ left: 0.25, width: 0.25 });
    expect(placeOn(whole, { start: 0, end: 2000 })).toEqual({ left: 0, width: 0.5 });
    expect(placeOn(whole, { start: 3500, end: 4000 })).toBeNull();
    expect(placeOn({ start: 5, end: 5 }, { start: 5, end: 5 })).toBeNull();
  });

  it('have round marks, at most as many as asked for', () => {
    expect(ticksOf(900, 5)).toEqual([0, 200, 400, 600, 800]);
    expect(ticksOf(42_000, 6).map(tickLabel)).toEqual(['0', '10 s', '20 s', '30 s', '40 s']);
    fc.assert(
      fc.property(
        fc.double({ min: 1, max: 1e10, noNaN: true }),
        fc.integer({ min: 2, max: 12 }),
        (length, most) => {
          const ticks = ticksOf(length, most);
          expect(ticks.length).toBeLessThanOrEqual(most + 1);
          expect(ticks.at(-1)).toBeLessThanOrEqual(length);
        },
      ),
      { seed: 7 },
    );
  });

  it('say the unit', () => {
    expect([250, 1500, 90_000, 180_000, 5_400_000, 7_200_000].map(tickLabel)).toEqual([
      '250 ms',
      '1.5 s',
      '1:30',
      '3 min',
      '1:30 h',
      '2 h',
    ]);
  });
});

describe('a trainer', () => {
  it('is idle where none of its jobs runs, also before the first and after the last', () => {
    const jobs = [
      { start: 2000, end: 2400 },
      { start: 1200, end: 1500 },
      { start: 1300, end: 1800 },
    ];
    expect(gapsIn(whole, jobs)).toEqual([
      { start: 1000, end: 1200 },
      { start: 1800, end: 2000 },
      { start: 2400, end: 3000 },
    ]);
    expect(gapsIn(whole, jobs, 300)).toEqual([{ start: 2400, end: 3000 }]);
    expect(gapsIn(whole, [])).toEqual([whole]);
  });
});

it('the median of durations is the middle one, or between the two', () => {
  expect([median([3, 1, 2]), median([4, 1, 2, 3]), median([])]).toEqual([2, 2.5, 0]);
});
