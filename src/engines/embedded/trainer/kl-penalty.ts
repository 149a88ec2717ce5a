import { type KlPenaltyShifts, klPenaltyShifts, type LossConfig } from '../../../learning/index.ts';
import type { TrainingBatch } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { loadWeights } from '../base-models.ts';
import type { Runtime } from '../runtime.ts';
import { type ForwardModel, logprobsUnder } from './forward-pass.ts';
import type { MicroBatch } from './micro-batches.ts';

/**
 * The KL penalty of a batch before its gradient is taken: the mean of k over all its decisions has to be known by then,
 * so the batch runs forward under the reference weights and, where they are asked for, under the current ones.
 */
export async function klPenaltyOf(
  config: LossConfig,
  reference: TrainingBatch['reference'],
  model: ForwardModel,
  batches: readonly MicroBatch[],
  runtime: Runtime,
): Promise<KlPenaltyShifts | null> {
  if (config.type === 'cross_entropy' || config.klPenalty === null) return null;
  if (!reference)
    throw new EngineError('no_reference', 'a KL penalty needs reference weights to compare with');
  const decisions = batches.flatMap((batch) => batch.decisions.flat());
  const needsCurrent =
    config.klPenalty.source === 'current_learner' ||
    decisions.some(({ decision }) => decision.logprob === null);
  const weights = await loadWeights(reference);
  if (weights.length !== model.weights.length)
    throw new EngineError(
      'bad_reference',
      `the reference has ${weights.length} parameters and the model ${model.weights.length}; both must have the same base model`,
    );
  const referenceLogprobs = await logprobsUnder({ ...model, weights }, batches, runtime);
  const current = needsCurrent ? await logprobsUnder(model, batches, runtime) : [];
  const terms = decisions.map(({ decision }, index) => ({
    sampled: decision.logprob,
    reference: referenceLogprobs[index] as number,
    current: current[index] ?? null,
  }));
  return klPenaltyShifts(terms, config.klPenalty);
}
