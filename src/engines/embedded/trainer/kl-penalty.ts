import { type KlPenaltyShifts, klPenaltyShifts, type LossConfig } from '../../../learning/index.ts';
import { EngineError, type Weights } from '../../engine.ts';
import type { TrainingPasses } from './passes.ts';

/** What a KL penalty compares. */
interface Comparison {
  step: Pick<TrainingPasses, 'decisions' | 'logprobs'>;
  baseModel: string;
  /** The current values. */
  vector: Float32Array;
  /** The weights to compare with; null when the batch names none. */
  reference: Weights | null;
  /** Values of the reference; null for a base model without an adapter. */
  load(weights: Weights): Promise<Float32Array | null>;
  signal: AbortSignal;
}

/**
 * Computes the KL penalty of a batch; null when the loss has none. The penalty needs the mean of k over all decisions
 * before any gradient, so this runs the whole batch forward under the reference weights and, if needed, under the
 * current ones.
 */
export async function klPenaltyOf(
  config: LossConfig,
  { step, baseModel, vector, reference, load, signal }: Comparison,
): Promise<KlPenaltyShifts | null> {
  if (config.type === 'cross_entropy' || config.klPenalty === null) return null;
  if (!reference)
    throw new EngineError('no_reference', 'A KL penalty needs reference weights to compare with.');
  if (reference.baseModel !== baseModel)
    throw new EngineError(
      'bad_reference',
      `The reference is a ${reference.baseModel} and the model a ${baseModel}. Both must have the same base model.`,
    );
  const { decisions } = step;
  const needsCurrent =
    config.klPenalty.source === 'current_learner' || decisions.some(({ logprob }) => logprob === null);
  const referenceLogprobs = await step.logprobs(await load(reference), signal);
  const current = needsCurrent ? await step.logprobs(vector, signal) : [];
  const terms = decisions.map(({ logprob }, index) => ({
    sampled: logprob,
    reference: referenceLogprobs[index] as number,
    current: current[index] ?? null,
  }));
  return klPenaltyShifts(terms, config.klPenalty);
}
