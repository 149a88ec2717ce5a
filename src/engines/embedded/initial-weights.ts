import { checkpointTensors, embeddingTensor, headTensor } from './checkpoint/tensors.ts';
import { Random } from './random.ts';
import type { Architecture } from './weights/architecture.ts';

/**
 * Standard deviation of a tensor's initial values; null means that all are 1. The outputs of attention and MLP start
 * at zero, so that every layer starts as the identity.
 */
function deviation(name: string, inputs: number): number | null {
  if (name.endsWith('norm.weight')) return null;
  if (name.endsWith('o_proj.weight') || name.endsWith('down_proj.weight')) return 0;
  if (name === 'model.embed_positions.weight') return 0.2;
  if (name === headTensor) return 0.02;
  if (name === embeddingTensor || name.startsWith('model.embed_previous.')) return 0.5;
  return 0.7 / Math.sqrt(inputs);
}

/** The initial weights of a base model, by their names: random, but always the same for the same seed. */
export function initializeWeights(architecture: Architecture, seed: number): Map<string, Float32Array> {
  const random = new Random(seed);
  const weights = new Map<string, Float32Array>();
  const { width } = architecture;
  /** Draws a matrix [outputs, inputs] by its columns. */
  const drawColumns = (matrix: Float32Array, outputs: number, scale: number) => {
    const inputs = matrix.length / outputs;
    for (let input = 0; input < inputs; input++)
      for (let output = 0; output < outputs; output++)
        matrix[output * inputs + input] = scale * random.normal();
  };
  for (const { name, dimensions } of checkpointTensors(architecture)) {
    const [rows = 1, inputs = 1] = dimensions;
    const scale = deviation(name, inputs);
    const isTable = name.startsWith('model.embed_');
    const values = weights.get(name) ?? new Float32Array(rows * inputs);
    if (scale === null) values.fill(1);
    else if (isTable)
      for (let index = 0; index < values.length; index++) values[index] = scale * random.normal();
    else if (name.endsWith('q_proj.weight')) {
      // Queries, keys and values are drawn as one matrix.
      const packed = new Float32Array(3 * rows * width);
      drawColumns(packed, 3 * rows, scale);
      for (const [part, other] of ['q', 'k', 'v'].entries())
        weights.set(
          name.replace('q_proj', `${other}_proj`),
          packed.subarray(part * values.length, (part + 1) * values.length),
        );
      continue;
    } else if (scale !== 0 && !weights.has(name)) drawColumns(values, rows, scale);
    weights.set(name, values);
  }
  return weights;
}
