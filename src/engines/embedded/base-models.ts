import type { SharedLanguage } from '../../language/index.ts';
import type { BaseModel, Weights } from '../engine.ts';
import { EngineError } from '../engine.ts';
import { builtInLanguage } from './built-in/built-in-language.ts';
import { initializeWeights } from './initial-weights.ts';
import { randomAdapter, type Trained, trainedShapes } from './runner/adapter-vector.ts';
import type { BaseWeights } from './runner/layer-feeds.ts';
import { type Architecture, fullyTrained, type TensorShape, vectorLength } from './weights/architecture.ts';
import { readWeights, type TensorOrigin } from './weights/checkpoint-files.ts';

/** A base model of the embedded engine: one that comes with it, or a checkpoint in Hugging Face form. */
export interface EmbeddedBaseModel extends BaseModel, BaseWeights {
  /**
   * Whether it is so small that each core has a thread of its own for it, on the CPU. The threads of other models share
   * all cores. Set for those that come with the engine.
   */
  isSmall: boolean;
  parameters: number;
  /** What training changes: a LoRA adapter, or all weights. */
  trained: Trained;
  /** The adapter that its models begin with, as a flat vector in shared memory; null without one. */
  start: Float32Array | null;
  /** Its tokenizer and chat format. */
  language: SharedLanguage;
  /** Tells its weights from others: see `hashWeights`, or the seed of random ones. */
  weightsHash: string;
}

/** A model with random weights, all of which are trained. Another `seed` is another model. */
function builtInModel(
  { id, seed, defaults }: Pick<BaseModel, 'id' | 'defaults'> & { seed: number },
  sizes: Pick<Architecture, 'width' | 'layers' | 'heads' | 'contextLength'>,
): EmbeddedBaseModel {
  const architecture = fullyTrained({ vocabularySize: 512, ...sizes, previousTokens: 2 });
  const { contextLength, vocabularySize } = architecture;
  let weights: ReadonlyMap<string, Float32Array> | undefined;
  return {
    isSmall: true,
    id,
    architecture,
    contextLength,
    vocabularySize,
    defaults,
    parameters: vectorLength(trainedShapes(architecture, 'all')),
    trained: 'all',
    start: null,
    weightsHash: `random-${seed}`,
    get language() {
      return builtInLanguage().shared;
    },
    /** Made when they are first needed. */
    get weights() {
      weights ??= initializeWeights(architecture, seed);
      return weights;
    },
  };
}

/** The models that come with the engine. Their weights are random, so they know nothing before training. */
export const builtInModels: readonly EmbeddedBaseModel[] = [
  builtInModel(
    {
      id: 'martingale-tiny',
      seed: 20261,
      defaults: { rlLearningRate: 7e-4, sftLearningRate: 1.5e-3, sftBatchSize: 32 },
    },
    { width: 128, layers: 2, heads: 4, contextLength: 512 },
  ),
  builtInModel(
    {
      id: 'martingale-small',
      seed: 20262,
      defaults: { rlLearningRate: 4e-4, sftLearningRate: 1e-3, sftBatchSize: 32 },
    },
    { width: 192, layers: 4, heads: 6, contextLength: 1024 },
  ),
];

export class BaseModels {
  readonly all: readonly EmbeddedBaseModel[];

  constructor(checkpoints: readonly EmbeddedBaseModel[]) {
    this.all = [...builtInModels, ...checkpoints];
  }

  find(id: string): EmbeddedBaseModel {
    const found = this.all.find((model) => model.id === id);
    if (found) return found;
    const known = this.all.map((model) => model.id).join(', ');
    throw new EngineError('unknown_base_model', `Unknown base model ${id}. Known: ${known}.`);
  }

  /** The tensors that training changes. */
  trainedShapes(id: string): readonly TensorShape[] {
    const { architecture, trained } = this.find(id);
    return trainedShapes(architecture, trained);
  }

  /** What the trained tensors belong to: an adapter fits the weights and settings that it was trained with. */
  originOf(id: string): TensorOrigin {
    const { trained, weightsHash: base_weights } = this.find(id);
    if (trained === 'all') return { base_weights, train: trained };
    const { rank, alpha, targets } = trained;
    return {
      base_weights,
      train: 'lora',
      lora_rank: String(rank),
      lora_alpha: String(alpha),
      lora_targets: targets.join(','),
    };
  }

  /** The flat vector of the trained tensors. */
  async loadVector({ baseModel: id, folder }: Weights): Promise<Float32Array> {
    const model = this.find(id);
    const shapes = this.trainedShapes(id);
    if (folder !== null) return await readWeights(folder, shapes, this.originOf(id));
    if (model.trained === 'all') return ownWeights(model, shapes);
    // As PEFT initializes an adapter.
    return model.start
      ? Float32Array.from(model.start)
      : randomAdapter(shapes, 20263, (name) => name.endsWith('.lora_B.weight'));
  }

  /** Whether these are the base model's own weights, without an adapter that changes anything. */
  isBare({ baseModel: id, folder }: Weights): boolean {
    return folder === null && this.find(id).start === null;
  }
}

function ownWeights({ weights }: BaseWeights, shapes: readonly TensorShape[]): Float32Array {
  const vector = new Float32Array(vectorLength(shapes));
  for (const { name, offset } of shapes) vector.set(weights.get(name) as Float32Array, offset);
  return vector;
}
