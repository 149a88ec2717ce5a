import { type KlPenaltyShifts, klPenaltyShifts, type LossConfig } from '../../../learning/index.ts';
import { EngineError, type TrainingBatch } from '../../engine.ts';
import { loadWeights } from '../base-models.ts';
import { logprobOf } from './batch-loss.ts';
import type { MicroBatch } from './micro-batches.ts';
import { type RunningModel, shareWeights, useLogits } from './passes.ts';

/** Log-probabilities of all decisions, in the order of the micro-batches. Runs only the forward pass. */
async function logprobsUnder(model: RunningModel, batches: readonly MicroBatch[]): Promise<number[]> {
  const logprobs: number[] = [];
  await useLogits(model, batches, ({ decisions }, logits) => {
    for (const { decision, row } of decisions.flat())
      logprobs.push(logprobOf(decision.distribution(logits, row), decision.token));
  });
  return logprobs;
}

/**
 * Computes the KL penalty of a batch; null when the loss has none. The penalty needs the mean of k over all decisions
 * before any gradient, so this runs the whole batch forward under the reference weights and, if needed, under the
 * current ones.
 */
export async function klPenaltyOf(
  config: LossConfig,
  reference: TrainingBatch['reference'],
  model: RunningModel,
  batches: readonly MicroBatch[],
): Promise<KlPenaltyShifts | null> {
  if (config.type === 'cross_entropy' || config.klPenalty === null) return null;
  if (!reference)
    throw new EngineError('no_reference', 'a KL penalty needs reference weights to compare with');
  const decisions = batches.flatMap((batch) => batch.decisions.flat());
  const needsCurrent =
    config.klPenalty.source === 'current_learner' ||
    decisions.some(({ decision }) => decision.logprob === null);
  const weights = shareWeights(await loadWeights(reference));
  if (weights.length !== model.weights.length)
    throw new EngineError(
      'bad_reference',
      `the reference has ${weights.length} parameters and the model ${model.weights.length}; both must have the same base model`,
    );
  const referenceLogprobs = await logprobsUnder({ ...model, weights }, batches);
  const current = needsCurrent ? await logprobsUnder(model, batches) : [];
  const terms = decisions.map(({ decision }, index) => ({
    sampled: decision.logprob,
    reference: referenceLogprobs[index] as number,
    current: current[index] ?? null,
  }));
  return klPenaltyShifts(terms, config.klPenalty);
}
