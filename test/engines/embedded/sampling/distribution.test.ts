import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Distribution,
  distributionOf,
  entropyOf,
  gatherLogits,
  likeliest,
  pick,
  softmaxOf,
} from '../../../../src/engines/embedded/sampling/distribution.ts';
import { logitRows, logprobsOf } from '../logit-rows.ts';

const plain = { temperature: 1, topP: 1, topK: 0, minP: 0 };
const all = (size: number) => Int32Array.from({ length: size }, (_, id) => id);
const of = (
  logits: Float32Array,
  legal: Int32Array,
  cutOffs: Parameters<typeof distributionOf>[1],
  keep?: number,
) => distributionOf(gatherLogits(logits, 0, legal), cutOffs, keep);
const logitsOf = (probabilities: number[]) => Float32Array.from(probabilities, (p) => Math.log(p));
const probabilitiesOf = (distribution: Distribution) => logprobsOf(distribution).map(Math.exp);

describe('the sampling distribution', () => {
  const logits = logitsOf([0.5, 0.3, 0.15, 0.05]);

  it('is the softmax of the logits over the legal tokens', () => {
    const distribution = of(logits, Int32Array.of(1, 3), plain);
    expect([...distribution.support]).toEqual([1, 3]);
    expect(probabilitiesOf(distribution)[0]).toBeCloseTo(0.3 / 0.35, 6);
  });

  it('divides the logits by the temperature', () => {
    const distribution = of(logits, all(4), { ...plain, temperature: 2 });
    const roots = [0.5, 0.3, 0.15, 0.05].map(Math.sqrt);
    const total = roots.reduce((sum, root) => sum + root, 0);
    for (const [index, value] of probabilitiesOf(distribution).entries())
      expect(value).toBeCloseTo((roots[index] as number) / total, 6);
  });

  it('approaches the likeliest token as the temperature approaches 0, and stays finite', () => {
    for (const temperature of [1e-3, 1e-7, 1e-300, 5e-324]) {
      const distribution = of(logits, all(4), { ...plain, temperature });
      expect(probabilitiesOf(distribution)[0]).toBeCloseTo(1, 12);
      expect(logprobsOf(distribution).every(Number.isFinite)).toBe(true);
      expect(entropyOf(distribution)).toBeCloseTo(0, 12);
      expect(pick(distribution, 0.999)).toBe(0);
    }
  });

  it('keeps the k likeliest', () => {
    expect([...of(logits, all(4), { ...plain, topK: 2 }).support]).toEqual([0, 1]);
  });

  it('keeps the smallest set that reaches top-p', () => {
    expect([...of(logits, all(4), { ...plain, topP: 0.79 }).support]).toEqual([0, 1]);
    expect([...of(logits, all(4), { ...plain, topP: 0.81 }).support]).toEqual([0, 1, 2]);
  });

  it('applies top-p to what top-k left', () => {
    // Of 0.5 and 0.3 the first alone holds 0.625.
    expect([...of(logits, all(4), { ...plain, topK: 2, topP: 0.6 }).support]).toEqual([0]);
  });

  it('drops what is less likely than min-p of the likeliest', () => {
    expect([...of(logits, all(4), { ...plain, minP: 0.29 }).support]).toEqual([0, 1, 2]);
    expect([...of(logits, all(4), { ...plain, minP: 0.31 }).support]).toEqual([0, 1]);
  });

  it('always contains the token to keep', () => {
    const distribution = of(logits, all(4), { ...plain, topK: 1 }, 3);
    expect([...distribution.support]).toEqual([0, 3]);
    expect(probabilitiesOf(distribution)[1]).toBeCloseTo(0.05 / 0.55, 6);
  });

  it('counts temperature 0 as 1 and takes the likeliest, the lowest id among equals', () => {
    const distribution = of(logitsOf([0.2, 0.4, 0.4]), all(3), { ...plain, temperature: 0 });
    expect(probabilitiesOf(distribution)[1]).toBeCloseTo(0.4, 6);
    expect(likeliest(distribution)).toBe(1);
  });

  it('has the entropy of its probabilities', () => {
    expect(entropyOf(of(logitsOf([0.25, 0.25, 0.25, 0.25]), all(4), plain))).toBeCloseTo(Math.log(4), 6);
  });

  it('always adds up to 1, whatever the logits and the cut-offs', () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -50, max: 50, noNaN: true }), { minLength: 1, maxLength: 40 }),
        fc.record({
          temperature: fc.constantFrom(0, 0.1, 0.7, 1, 2),
          topP: fc.double({ min: 0.01, max: 1, noNaN: true }),
          topK: fc.nat(50),
          minP: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (values, sampling, uniform) => {
          const distribution = of(Float32Array.from(values), all(values.length), sampling);
          const total = probabilitiesOf(distribution).reduce((sum, value) => sum + value, 0);
          expect(total).toBeCloseTo(1, 9);
          expect(distribution.support[pick(distribution, uniform)]).toBeDefined();
        },
      ),
      { seed: 1, numRuns: 300 },
    );
  });

  it('is followed by draws', () => {
    const distribution = of(logits, all(4), plain);
    const counts = [0, 0, 0, 0];
    for (let draw = 0; draw < 1000; draw++) counts[pick(distribution, (draw + 0.5) / 1000)]!++;
    expect(counts).toEqual([500, 300, 150, 50]);
  });

  describe('from the exponentials of a graph', () => {
    it('is the same to 1e-6, whatever the logits and the legal tokens', () => {
      const rows = fc
        .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 3 }))
        .chain(([size, count]) =>
          fc.record({
            legal: fc.subarray([...Array(size).keys()], { minLength: 1 }),
            values: fc.array(fc.float({ min: -30, max: 30, noNaN: true }), {
              minLength: size * count,
              maxLength: size * count,
            }),
            size: fc.constant(size),
            row: fc.nat(count - 1),
          }),
        );
      fc.assert(
        fc.property(rows, ({ legal, values, size, row }) => {
          const logits = Float32Array.from(values);
          const fast = softmaxOf(logitRows(logits, size), row, Int32Array.from(legal));
          const exact = distributionOf(gatherLogits(logits, row * size, Int32Array.from(legal)), plain);
          if (!fast) throw new Error('no distribution');
          expect([...fast.support]).toEqual([...exact.support]);
          expect(likeliest(fast)).toBe(likeliest(exact));
          expect(entropyOf(fast)).toBeCloseTo(entropyOf(exact), 5);
          const expected = logprobsOf(exact);
          for (const [index, value] of logprobsOf(fast).entries())
            expect(Math.abs(value - (expected[index] as number))).toBeLessThan(1e-6);
        }),
        { seed: 2, numRuns: 300 },
      );
    });

    it('is refused where they have lost their digits, and where a logit is NaN', () => {
      const rows = logitRows(Float32Array.of(90, 1, 0));
      expect(softmaxOf(rows, 0, Int32Array.of(1, 2))).toBeNull();
      expect(softmaxOf(rows, 0, all(3))).not.toBeNull();
      expect(softmaxOf(logitRows(Float32Array.of(0, Number.NaN)), 0, all(2))).toBeNull();
    });
  });
});
