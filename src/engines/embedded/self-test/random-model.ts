import { checkpointTensors, projections } from '../checkpoint/tensors.ts';
import { Random } from '../random.ts';
import type { Trained } from '../runner/adapter-vector.ts';
import { elementsOf } from '../weights/architecture.ts';
import { partOf, type TestedModel } from './trial.ts';

/** Settings that change numbers and no shapes, as most models have them. */
const usual = { positions: { theta: 10_000, scaling: null }, normEpsilon: 1e-6 } as const;

/** A small random model with all that families have, to test a runtime without a checkpoint. */
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
    previousTokens: 0,
    mlp: 'gated-silu',
    queryKeyNorm: true,
    attentionBias: true,
    tiedEmbeddings: false,
    normOffset: 1,
    outputNorms: true,
    embeddingScale: 8,
    attentionScale: 0.2,
    residualScale: 0.5,
    logitScale: 0.5,
    joinedGate: false,
    convolutions: { layers: [true, false], taps: 3 },
    tensorNames: 'llama',
    local: { layers: [false, true], window: 2, positions: { theta: 1000, scaling: null } },
    ...usual,
  };
  return randomModel('a small random model', architecture, wholeAdapter);
}

const wholeAdapter = { rank: 4, alpha: 8, targets: projections };

/** The adapter that a checkpoint is tested with: its own, or one on all matrices if all weights are trained. */
export const testedAdapter = ({ trained }: { trained: Trained }): TestedModel['lora'] =>
  trained === 'all' ? wholeAdapter : trained;

/** A model of the same shapes as the tested part of another, with usual settings and random weights. */
export const usualModel = ({ id, architecture, lora }: TestedModel): TestedModel =>
  randomModel(id, { ...partOf(architecture, 2), ...usual }, lora);

/** A model with random weights, whose states keep their size from layer to layer. */
export function randomModel(
  id: string,
  architecture: TestedModel['architecture'],
  lora: TestedModel['lora'],
): TestedModel {
  const random = new Random(5);
  const tensors = checkpointTensors(architecture).map(({ name, dimensions }) => {
    const mean = name.endsWith('norm.weight') ? 1 - architecture.normOffset : 0;
    // States keep their size from layer to layer, whatever the width.
    const scale = 0.8 / Math.sqrt(dimensions[1] ?? 64);
    const values = Float32Array.from(
      { length: elementsOf(dimensions) },
      () => mean + scale * random.normal(),
    );
    return [name, values] as const;
  });
  return { id, architecture, weights: new Map(tensors), lora };
}
