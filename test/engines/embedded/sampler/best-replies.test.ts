import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BestReplies, LengthPenalty } from '../../../../src/engines/embedded/sampler/beam-search.ts';

const seed = 20261121;
const longest = 12;
const exponent = fc.double({ min: -3, max: 3, noNaN: true });
const fall = fc.double({ min: 0, max: 5, noNaN: true });

describe('the length penalty', () => {
  it('divides the sum by a power of the length, and counts no tokens as one', () => {
    expect(new LengthPenalty(2, longest).score(-12, 2)).toBe(-3);
    expect(new LengthPenalty(0, longest).score(-12, 5)).toBe(-12);
    expect(new LengthPenalty(-1, longest).score(-12, 5)).toBe(-60);
    expect(new LengthPenalty(1, longest).score(-12, 0)).toBe(-12);
    expect(new LengthPenalty(-1, longest).score(0, 0)).toBe(0);
  });

  it('bounds the score of a beam, which a beam that is certain from now on reaches', () => {
    const beam = fc.record({ exponent, sum: fall, falls: fc.array(fall, { maxLength: longest - 1 }) });
    fc.assert(
      fc.property(beam, ({ exponent, sum, falls }) => {
        const penalty = new LengthPenalty(exponent, longest);
        const bound = penalty.bound(-sum, 1);
        const later = falls.reduce((total, value) => total - value, -sum);
        // An end token makes no reply longer, so that falls may come with or without one more token.
        for (const length of [1, falls.length + 1])
          expect(penalty.score(later, length)).toBeLessThanOrEqual(bound);
        const certain = [1, longest].map((length) => penalty.score(-sum, length));
        expect(bound).toBe(Math.max(...certain));
      }),
      { seed },
    );
  });
});

describe('the best replies', () => {
  it('are kept best first, among equals the one found first', () => {
    const found = new BestReplies<string>(2);
    expect(found.worst).toBeNull();
    found.add('a', -2);
    found.add('b', -1);
    found.add('c', -2);
    found.add('d', -1);
    expect(found.replies).toEqual(['b', 'd']);
    expect(found.worst).toBe(-1);
  });
});
