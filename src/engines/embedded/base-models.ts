import type { BaseModel, Weights } from '../engine.ts';
import { EngineError } from '../engine.ts';
import { type Architecture, parameterCount } from './weights/architecture.ts';
import { readWeights } from './weights/checkpoint-files.ts';
import { initializeWeights } from './weights/initialize.ts';

export interface EmbeddedBaseModel extends BaseModel {
  architecture: Architecture;
  /** Seed of the random initial weights. Another seed is another model. */
  seed: number;
}

const vocabularySize = 512;

function baseModel(
  id: string,
  seed: number,
  sizes: Pick<Architecture, 'width' | 'layers' | 'heads' | 'contextLength'>,
  defaults: BaseModel['defaults'],
): EmbeddedBaseModel {
  const architecture = { ...sizes, vocabularySize, previousTokens: 2, expansion: 4 };
  return {
    id,
    seed,
    architecture,
    contextLength: sizes.contextLength,
    vocabularySize,
    parameters: parameterCount(architecture),
    defaults,
  };
}

/** The base models of the embedded engine. Their weights are random, so they know nothing before training. */
export const embeddedBaseModels: readonly EmbeddedBaseModel[] = [
  baseModel(
    'martingale-tiny',
    20261,
    { width: 128, layers: 2, heads: 4, contextLength: 512 },
    { rlLearningRate: 7e-4, sftLearningRate: 1.5e-3, sftBatchSize: 32 },
  ),
  baseModel(
    'martingale-small',
    20262,
    { width: 192, layers: 4, heads: 6, contextLength: 1024 },
    { rlLearningRate: 4e-4, sftLearningRate: 1e-3, sftBatchSize: 32 },
  ),
];

export function findBaseModel(id: string): EmbeddedBaseModel {
  const found = embeddedBaseModels.find((model) => model.id === id);
  if (found) return found;
  const known = embeddedBaseModels.map((model) => model.id).join(', ');
  throw new EngineError('unknown_base_model', `there is no base model ${id}; there are ${known}`);
}

export async function loadWeights({ baseModel: id, folder }: Weights): Promise<Float32Array> {
  const { architecture, seed } = findBaseModel(id);
  return folder === null ? initializeWeights(architecture, seed) : readWeights(folder, architecture);
}
