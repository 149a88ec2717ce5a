import { type KlPenaltyShifts, klPenaltyShifts, type LossConfig } from '../../../learning/index.ts';
import { EngineError, type TrainingBatch } from '../../engine.ts';
import { loadWeights } from '../base-models.ts';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { type Distribution, type LogitRows, logprobAt } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import { feedsOf, type MicroBatch } from './micro-batches.ts';

/** A set of weights, and the graph that runs them. */
interface ForwardModel {
  architecture: Architecture;
  graphs: { forward: Session };
  weights: Float32Array;
  /** When it is aborted, no further run starts. */
  signal?: AbortSignal;
}

/** Returns the logits, and the inputs of the backward pass except the gradient of the logits. */
export async function forwardPass(
  { architecture, graphs, weights, signal }: ForwardModel,
  batch: MicroBatch,
  runtime: Runtime,
): Promise<{ logits: LogitRows; backwardFeeds: Feeds }> {
  signal?.throwIfAborted();
  const { shared, causal, sources } = feedsOf(batch, architecture.previousTokens, runtime);
  const feeds = { ...shared, parameters: runtime.float(weights, [weights.length]) };
  const outputs = await graphs.forward.run({ ...feeds, causal });
  const tape = Object.fromEntries(Object.entries(outputs).filter(([name]) => name.startsWith('tape.')));
  return { logits: logitRowsOf(outputs), backwardFeeds: { ...feeds, ...tape, sources } };
}

/** Log-probabilities of all decisions, in the order of the micro-batches. Runs only the forward pass. */
async function logprobsUnder(
  model: ForwardModel,
  batches: readonly MicroBatch[],
  runtime: Runtime,
): Promise<number[]> {
  const logprobs: number[] = [];
  for (const batch of batches) {
    const { logits } = await forwardPass(model, batch, runtime);
    for (const { decision, row } of batch.decisions.flat()) {
      const distribution = decision.distribution(logits, row);
      logprobs.push(logprobOf(distribution, decision.token));
    }
  }
  return logprobs;
}

/** The log-probability of a token of the support. */
export function logprobOf(distribution: Distribution, token: number): number {
  const index = distribution.support.indexOf(token);
  const logprob = index < 0 ? Number.NaN : logprobAt(distribution, index);
  if (!Number.isFinite(logprob))
    throw new EngineError(
      'loss_not_finite',
      `the log-probability of token ${token} is ${logprob}; lower the learning rate`,
    );
  return logprob;
}

/**
 * Computes the KL penalty of a batch; null when the loss has none. The penalty needs the mean of k over all decisions
 * before any gradient, so this runs the whole batch forward under the reference weights and, if needed, under the
 * current ones.
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
