import { gradientName } from '../graphs/backward-graph.ts';
import { type Architecture, isLookup, tensorShapes } from '../weights/architecture.ts';
import type { OptimizerState } from '../weights/checkpoint-files.ts';
import type { Gradients } from './graph-runner.ts';
import type { BatchTokens } from './micro-batches.ts';

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
  // Both bias corrections are computed outside the loop over all parameters.
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

/**
 * Adds a micro-batch's gradient, the outputs of the backward graph, to the total, which has the layout of the
 * parameters. The rows of the looked-up tables are added here, one after another, because many positions share a token:
 * their sum must neither lose additions nor depend on the number of threads.
 */
export function addGradient(
  total: Float32Array,
  architecture: Architecture,
  { sequences, time }: Pick<BatchTokens, 'sequences' | 'time'>,
  outputs: Gradients,
): void {
  const { width } = architecture;
  const embedding = outputs.embedding_gradient as Float32Array;
  for (const { name, offset } of tensorShapes(architecture)) {
    if (!isLookup(name)) {
      addTo(total, offset, outputs[gradientName(name)] as Float32Array);
      continue;
    }
    const distance = name === 'token_embedding' ? 0 : Number(name.slice(name.lastIndexOf('.') + 1));
    sequences.forEach(({ tokens }, sequence) => {
      for (let at = 0; at < tokens.length; at++) {
        // Token 0 precedes the sequence, as in the graphs.
        const token = at >= distance ? (tokens[at - distance] as number) : 0;
        const source = (sequence * time + at) * width;
        addTo(total, offset + token * width, embedding.subarray(source, source + width));
      }
    });
  }
}

function addTo(total: Float32Array, offset: number, added: Float32Array): void {
  for (let index = 0; index < added.length; index++)
    total[offset + index] = (total[offset + index] as number) + (added[index] as number);
}
