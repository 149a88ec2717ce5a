import { Random } from '../random.ts';
import { type Architecture, parameterCount, type TensorShape, tensorShapes } from './architecture.ts';

/**
 * Standard deviation of a tensor's initial values; null means that all are 1. The outputs of attention and MLP start
 * at zero, so that every layer starts as the identity.
 */
function deviation({ name, dimensions }: TensorShape): number | null {
  if (name.endsWith('_norm')) return null;
  if (name.endsWith('attention_output') || name.endsWith('mlp_down')) return 0;
  if (name === 'position_embedding') return 0.2;
  if (name === 'head') return 0.02;
  if (name.includes('embedding')) return 0.5;
  return 0.7 / Math.sqrt(dimensions[0] ?? 1);
}

/** The initial weights of a base model: random, but always the same for the same seed. */
export function initializeWeights(architecture: Architecture, seed: number): Float32Array {
  const weights = new Float32Array(parameterCount(architecture));
  const random = new Random(seed);
  for (const shape of tensorShapes(architecture)) {
    const scale = deviation(shape);
    const tensor = weights.subarray(shape.offset, shape.offset + shape.size);
    if (scale === null) tensor.fill(1);
    else if (scale !== 0)
      for (let index = 0; index < tensor.length; index++) tensor[index] = scale * random.normal();
  }
  return weights;
}
