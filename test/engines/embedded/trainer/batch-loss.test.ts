import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { BatchLoss } from '../../../../src/engines/embedded/trainer/batch-loss.ts';
import type { LossConfig, Span } from '../../../../src/learning/index.ts';

const vocabularySize = 12;
const policy: LossConfig = {
  type: 'cispo',
  epsilon: 1,
  epsilonHigh: 4,
  maskRatio: false,
  maxRatio: null,
  tau: 0,
  precalculateLogprobs: false,
  entropyCoefficient: 0.3,
};

function spanOf(temperature: number, advantage: number, weight: number): Span<never> {
  return {
    start: 1,
    length: 1,
    logprobs: [null],
    sampling: { temperature, topP: 1, topK: 0, minP: 0 },
    constraint: null,
    advantage,
    weight,
  };
}

/** Three decisions with masks, temperatures and weights of their own, and a row of padding. */
function batchOf(advantage: number, logprob: number | null) {
  const legal = [
    Int32Array.of(0, 3, 7),
    Int32Array.from({ length: vocabularySize }, (_, id) => id),
    Int32Array.of(2, 9),
  ];
  return legal.map((ids, index) => ({
    row: index === 2 ? 3 : index,
    decision: {
      position: 0,
      token: ids[1] as number,
      legal: ids,
      logprob,
      span: spanOf([1, 0.5, 2][index] as number, advantage, [0.2, 0.5, 0.3][index] as number),
    },
  }));
}

describe('the loss of a batch', () => {
  const random = new Random(5);
  const logits = Float32Array.from({ length: 4 * vocabularySize }, () => 2 * random.normal());
  const total = (config: LossConfig, values: Float32Array, advantage: number, logprob: number | null) => {
    const loss = new BatchLoss(config);
    const slope = loss.add(batchOf(advantage, logprob), values, vocabularySize);
    return { slope, loss: loss.metrics().loss as number };
  };
  const differences = (config: LossConfig, advantage: number) =>
    Array.from(logits, (_, index) => {
      const nudged = (by: number) => {
        const values = logits.slice();
        values[index] = (values[index] as number) + by;
        return total(config, values, advantage, null).loss;
      };
      return (nudged(0.01) - nudged(-0.01)) / 0.02;
    });

  it('has the slope at the logits that differences show: cross-entropy, under masks and temperatures', () => {
    const { slope } = total({ type: 'cross_entropy' }, logits, 1, null);
    differences({ type: 'cross_entropy' }, 1).forEach((expected, index) => {
      expect(Math.abs((slope[index] as number) - expected)).toBeLessThan(2e-4);
    });
  });

  it('has the slope at the logits that differences show: the entropy bonus', () => {
    const { slope } = total(policy, logits, 0, null);
    differences(policy, 0).forEach((expected, index) => {
      expect(Math.abs((slope[index] as number) - expected)).toBeLessThan(2e-4);
    });
  });

  it('weighs a token by its clipped ratio and its advantage', () => {
    const config = { ...policy, entropyCoefficient: 0 };
    const unit = total({ type: 'cross_entropy' }, logits, 1, null).slope;
    // Sampled at e^-30, every ratio is beyond the upper clip of 5.
    const clipped = total(config, logits, 2, -30).slope;
    clipped.forEach((value, index) => {
      expect(value).toBeCloseTo(10 * (unit[index] as number), 4);
    });
  });

  it('gives nothing to illegal tokens and to padding', () => {
    const { slope } = total(policy, logits, 1, null);
    for (const id of [1, 2, 4, 5, 6, 8, 9, 10, 11]) expect(slope[id]).toBe(0);
    expect(slope.slice(2 * vocabularySize, 3 * vocabularySize).every((value) => value === 0)).toBe(true);
  });
});
