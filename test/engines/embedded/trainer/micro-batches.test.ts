import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tokensPerRun } from '../../../../src/engines/embedded/runner/training-memory.ts';
import type { Decision, TrainingSequence } from '../../../../src/engines/embedded/trainer/decisions.ts';
import { sequencesOf, toMicroBatches } from '../../../../src/engines/embedded/trainer/micro-batches.ts';
import { models } from '../sampler/support.ts';

const { architecture } = models.find('martingale-tiny');
const decisions = [{ position: 0 } as Decision];

/** Sequences without a common beginning. */
const sequencesOfLengths = (lengths: readonly number[]): TrainingSequence[] =>
  lengths.map((length, index) => ({ tokens: Array.from({ length }, () => index), decisions }));

const cut = (sequences: readonly TrainingSequence[], bytes = 1e9) =>
  toMicroBatches(sequences, { architecture, bytes, keepsLayers: true, isShared: true });

const sizesOf = (lengths: readonly number[]) =>
  cut(sequencesOfLengths(lengths)).map(({ rows }) =>
    rows.reduce((sum, { tokens }) => sum + tokens.length, 0),
  );

describe('micro-batches for several threads', () => {
  it('are four of a batch of medium size', () => {
    expect(sizesOf(Array(32).fill(76))).toEqual([608, 608, 608, 608]);
  });

  it('are few of a small batch, which more runs would make slower', () => {
    expect(sizesOf([50, 40])).toEqual([90]);
    expect(sizesOf(Array(12).fill(60))).toEqual([360, 360]);
  });

  it('are a multiple of four of a large batch, all of one size', () => {
    expect(sizesOf(Array(96).fill(76))).toEqual(Array(8).fill(912));
  });

  it('hold every sequence once, differ by less than a sequence, and have at most the largest size', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 2, max: 200 }), { minLength: 1, maxLength: 150 }), (lengths) => {
        const sequences = sequencesOfLengths(lengths);
        const batches = cut(sequences);
        expect(new Set(batches.flatMap(sequencesOf))).toEqual(new Set(sequences));
        expect(batches.flatMap(sequencesOf)).toHaveLength(sequences.length);
        for (const { rows, time } of batches)
          expect(rows.length === 1 || rows.length * time <= tokensPerRun.largest).toBe(true);
        const total = lengths.reduce((sum, length) => sum + length, 0);
        // Padding of the longest sequences may need one or two runs more.
        expect(batches.length).toBeLessThanOrEqual(4 * Math.ceil(total / tokensPerRun.largest / 4) + 2);
      }),
      { numRuns: 200 },
    );
  });

  it('fit into the memory', () => {
    const sequences = sequencesOfLengths(Array(40).fill(100));
    const [all, small] = [cut(sequences), cut(sequences, 5e7)];
    expect(small.length).toBeGreaterThan(all.length);
    expect(small.flatMap(sequencesOf)).toHaveLength(40);
  });
});
