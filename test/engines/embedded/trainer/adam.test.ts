import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';

describe('Adam', () => {
  it('follows algorithm 1 of its paper, written plainly in float64', () => {
    const random = new Random(3);
    const size = 50;
    const start = Float32Array.from({ length: size }, () => random.normal());
    let vector = new TrainedVector(start, null);
    const theta = Array.from(start);
    const m = new Array<number>(size).fill(0);
    const v = new Array<number>(size).fill(0);
    for (let t = 1; t <= 20; t++) {
      const gradient = Float32Array.from({ length: size }, () => 3 * random.normal());
      vector.clearGradient();
      vector.add(0, gradient.slice());
      vector.update({ learningRate: 0.01, scale: 0.5 });
      // As a job that begins from a saved checkpoint.
      if (t === 10) vector = new TrainedVector(vector.values, vector.optimizer);
      for (let i = 0; i < size; i++) {
        const g = 0.5 * (gradient[i] as number);
        m[i] = 0.9 * (m[i] as number) + 0.1 * g;
        v[i] = 0.99 * (v[i] as number) + 0.01 * g * g;
        const corrected = (m[i] as number) / (1 - 0.9 ** t);
        theta[i] =
          (theta[i] as number) - (0.01 * corrected) / (Math.sqrt((v[i] as number) / (1 - 0.99 ** t)) + 1e-8);
      }
    }
    vector.values.forEach((weight, i) => {
      expect(Math.abs(weight - (theta[i] as number))).toBeLessThan(1e-5);
    });
    expect(vector.optimizer.updates).toBe(20);
  });

  it('refuses more values than a memory of 4 GB has room for', () => {
    const values = new Float32Array(2 ** 28 + 8);
    expect(() => new TrainedVector(values, null)).toThrow(
      'Training needs 4.3 GB for 268435464 values, and has at most 4 GB',
    );
  });

  it('computes the norm of a gradient', () => {
    const vector = new TrainedVector(new Float32Array(21), null);
    vector.add(2, Float32Array.of(3));
    vector.add(19, Float32Array.of(4, 12));
    expect(vector.gradientNorm()).toBe(13);
  });
});
