import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { freshOptimizer, norm, updateByAdam } from '../../../../src/engines/embedded/trainer/optimizer.ts';

describe('Adam', () => {
  it('follows algorithm 1 of its paper, written plainly in float64', () => {
    const random = new Random(3);
    const size = 50;
    const start = Float32Array.from({ length: size }, () => random.normal());
    const weights = start.slice();
    const state = freshOptimizer(size);
    const theta = Array.from(start);
    const m = new Array<number>(size).fill(0);
    const v = new Array<number>(size).fill(0);
    for (let t = 1; t <= 20; t++) {
      const gradient = Float32Array.from({ length: size }, () => 3 * random.normal());
      updateByAdam(weights, gradient, state, { learningRate: 0.01, scale: 0.5 });
      for (let i = 0; i < size; i++) {
        const g = 0.5 * (gradient[i] as number);
        m[i] = 0.9 * (m[i] as number) + 0.1 * g;
        v[i] = 0.99 * (v[i] as number) + 0.01 * g * g;
        const corrected = (m[i] as number) / (1 - 0.9 ** t);
        theta[i] =
          (theta[i] as number) - (0.01 * corrected) / (Math.sqrt((v[i] as number) / (1 - 0.99 ** t)) + 1e-8);
      }
    }
    weights.forEach((weight, i) => {
      expect(Math.abs(weight - (theta[i] as number))).toBeLessThan(1e-5);
    });
    expect(state.updates).toBe(20);
  });

  it('computes the norm of a gradient', () => {
    expect(norm(Float32Array.of(3, 4))).toBe(5);
  });
});
