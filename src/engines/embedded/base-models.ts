import type { BaseModel, Weights } from '../engine.ts';
import { EngineError } from '../engine.ts';
import { type Architecture, fullyTrained, parameterCount, tensorShapes } from './weights/architecture.ts';
import { readWeights } from './weights/checkpoint-files.ts';
import { initializeWeights } from './weights/initialize.ts';

interface EmbeddedBaseModel extends BaseModel {
  architecture: Architecture;
  /** Seed of the random initial weights. Another seed is another model. */
  seed: number;
}

function baseModel(
  { id, seed, defaults }: Pick<EmbeddedBaseModel, 'id' | 'seed' | 'defaults'>,
  sizes: Pick<Architecture, 'width' | 'layers' | 'heads' | 'contextLength'>,
): EmbeddedBaseModel {
  const architecture = fullyTrained({ vocabularySize: 512, ...sizes, previousTokens: 2 });
  const { contextLength, vocabularySize } = architecture;
  const parameters = parameterCount(architecture);
  return { id, seed, architecture, contextLength, vocabularySize, parameters, defaults };
}

/** The base models of the embedded engine. Their weights are random, so they know nothing before training. */
export const embeddedBaseModels: readonly EmbeddedBaseModel[] = [
  baseModel(
    {
      id: 'martingale-tiny',
      seed: 20261,
      defaults: { rlLearningRate: 7e-4, sftLearningRate: 1.5e-3, sftBatchSize: 32 },
    },
    { width: 128, layers: 2, heads: 4, contextLength: 512 },
  ),
  baseModel(
    {
      id: 'martingale-small',
      seed: 20262,
      defaults: { rlLearningRate: 4e-4, sftLearningRate: 1e-3, sftBatchSize: 32 },
    },
    { width: 192, layers: 4, heads: 6, contextLength: 1024 },
  ),
];

export function findBaseModel(id: string): EmbeddedBaseModel {
  const found = embeddedBaseModels.find((model) => model.id === id);
  if (found) return found;
  const known = embeddedBaseModels.map((model) => model.id).join(', ');
  throw new EngineError('unknown_base_model', `unknown base model ${id}; known: ${known}`);
}

export async function loadWeights({ baseModel: id, folder }: Weights): Promise<Float32Array> {
  const { architecture, seed } = findBaseModel(id);
  return folder === null
    ? initializeWeights(architecture, seed)
    : readWeights(folder, tensorShapes(architecture));
}
