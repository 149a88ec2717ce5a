import { basename } from 'node:path';
import type { EmbeddedBaseModel } from '../../../../src/engines/embedded/base-models.ts';
import { builtInLanguage } from '../../../../src/engines/embedded/built-in/built-in-language.ts';
import { hashWeights, readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { checkpointTensors, projections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import type { BaseWeights } from '../../../../src/engines/embedded/runner/layer-feeds.ts';
import { ReplySampling } from '../../../../src/engines/embedded/sampling/reply-sampling.ts';
import type { DecisionCodec } from '../../../../src/engines/embedded/trainer/decisions.ts';
import { type Architecture, usualOptions } from '../../../../src/engines/embedded/weights/architecture.ts';
import { codec } from '../sampler/support.ts';

/** The adapters that training makes of models without convolutions, with a matrix for the gate alone. */
export const adapterOfTests = {
  ...{ rank: 4, alpha: 8 },
  targets: projections.filter((name) => !['in_proj', 'out_proj', 'gate_up_proj'].includes(name)),
};

/** A checkpoint as a base model. */
function modelOf(id: string, { architecture, weights }: BaseWeights): EmbeddedBaseModel {
  const { contextLength, vocabularySize } = architecture;
  return {
    ...{ isSmall: false, id, architecture, weights, contextLength, vocabularySize },
    trained: adapterOfTests,
    start: null,
    language: builtInLanguage().shared,
    weightsHash: hashWeights(weights),
    parameters: Array.from(weights.values()).reduce((sum, { length }) => sum + length, 0),
    defaults: { rlLearningRate: 1e-3, sftLearningRate: 1e-3, sftBatchSize: 4 },
  };
}

/** A base model of a folder in Hugging Face form. */
export async function modelIn(folder: string): Promise<EmbeddedBaseModel> {
  return modelOf(basename(folder), await readCheckpoint(folder));
}

/** A small Qwen3-shaped base model with random weights. Embeddings of a smaller deviation hardly learn. */
export function randomModel(id: string, seed: number, sizes: Partial<Architecture> = {}): EmbeddedBaseModel {
  const architecture: Architecture = {
    vocabularySize: 128,
    width: 64,
    layers: 2,
    heads: 4,
    keyValueHeads: 2,
    headWidth: 16,
    mlpWidth: 128,
    contextLength: 64,
    positions: { theta: 10_000, scaling: null },
    previousTokens: 0,
    mlp: 'gated-silu',
    ...usualOptions,
    normEpsilon: 1e-6,
    queryKeyNorm: true,
    attentionBias: false,
    tiedEmbeddings: true,
    ...sizes,
  };
  const random = new Random(seed);
  const tensors = checkpointTensors(architecture).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    const deviation = name.includes('embed') ? 0.25 : 1 / Math.sqrt(dimensions[1] ?? 1);
    const draw = () =>
      name.endsWith('norm.weight') ? 1 - architecture.normOffset : deviation * random.normal();
    return [name, Float32Array.from({ length: size }, draw)] as const;
  });
  return modelOf(id, { architecture, weights: new Map(tensors) });
}

/** Replies in tokens without texts: any token of the vocabulary is legal. */
export function codecOfTokens(vocabularySize: number): DecisionCodec {
  const ids = Int32Array.from({ length: vocabularySize }, (_, id) => id);
  const bytes = Array.from(ids, String);
  return {
    compiler: codec.compiler,
    prepareSampling: (parameters) =>
      new ReplySampling(parameters, { endToken: 0, unconstrained: ids, bytes }, new Map()),
  };
}
