import { checkpointTensors, projections } from '../checkpoint/tensors.ts';
import { Random } from '../random.ts';
import type { TestedModel } from './trial.ts';

/** A small random model with all that a family has, to test a runtime without a checkpoint. */
export function smallModel(): TestedModel {
  const architecture: TestedModel['architecture'] = {
    vocabularySize: 512,
    width: 64,
    layers: 2,
    heads: 4,
    keyValueHeads: 2,
    headWidth: 16,
    mlpWidth: 96,
    contextLength: 64,
    positions: { theta: 10_000, scaling: null },
    previousTokens: 0,
    mlp: 'gated-silu',
    normEpsilon: 1e-6,
    queryKeyNorm: true,
    attentionBias: true,
    tiedEmbeddings: false,
  };
  const random = new Random(5);
  const tensors = checkpointTensors(architecture).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    const mean = name.endsWith('norm.weight') ? 1 : 0;
    return [name, Float32Array.from({ length: size }, () => mean + 0.1 * random.normal())] as const;
  });
  const lora = { rank: 4, alpha: 8, targets: projections };
  return { id: 'a small random model', architecture, weights: new Map(tensors), lora };
}
