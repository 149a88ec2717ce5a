import type { OptimizerState } from '../weights/checkpoint-files.ts';

const firstDecay = 0.9;
const secondDecay = 0.99;
const epsilon = 1e-8;

export function freshOptimizer(size: number): OptimizerState {
  return { first: new Float32Array(size), second: new Float32Array(size), updates: 0 };
}

export function norm(vector: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < vector.length; index++)
    sum += (vector[index] as number) * (vector[index] as number);
  return Math.sqrt(sum);
}

/**
 * One update of Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1) with decays 0.9 and 0.99, in place.
 * `scale` multiplies the gradient first.
 */
export function updateByAdam(
  weights: Float32Array,
  gradient: Float32Array,
  state: OptimizerState,
  { learningRate, scale }: { learningRate: number; scale: number },
): void {
  state.updates++;
  const { first, second } = state;
  // Both bias corrections are taken out of the loop, which runs over every parameter.
  const stepSize = learningRate / (1 - firstDecay ** state.updates);
  const secondScale = 1 / (1 - secondDecay ** state.updates);
  for (let index = 0; index < weights.length; index++) {
    const slope = (gradient[index] as number) * scale;
    const mean = firstDecay * (first[index] as number) + (1 - firstDecay) * slope;
    const square = secondDecay * (second[index] as number) + (1 - secondDecay) * slope * slope;
    first[index] = mean;
    second[index] = square;
    weights[index] =
      (weights[index] as number) - (stepSize * mean) / (Math.sqrt(square * secondScale) + epsilon);
  }
}
