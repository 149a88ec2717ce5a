import { klPenaltyShifts, type LossConfig } from '../../../learning/index.ts';
import { EngineError, type Weights } from '../../engine.ts';
import type { BatchPenalty } from './batch-loss.ts';
import type { TrainingPasses } from './passes.ts';

type Passes = Pick<TrainingPasses, 'decisions' | 'logprobs'>;

/** The two sides that a KL penalty compares. */
interface Comparison {
  step: Passes;
  baseModel: string;
  /** The current values. */
  vector: Float32Array;
  /** The weights to compare with; null when the batch names none. */
  reference: Weights | null;
  /** Runs the sequences through the graphs of another base model. */
  passesOf(baseModel: string): Promise<Passes>;
  /** Values of the reference; null for a base model without an adapter. */
  load(weights: Weights): Promise<Float32Array | null>;
  signal: AbortSignal;
}

/**
 * Computes the KL penalty of a batch; null when the loss has none. A centred penalty needs the mean of k over all decisions
 * before any gradient, so this runs the whole batch forward under the reference weights and, if needed, under the
 * current ones. Without the mean, the training's own passes tell the current log-probabilities.
 */
export async function klPenaltyOf(config: LossConfig, comparison: Comparison): Promise<BatchPenalty | null> {
  if (config.type === 'cross_entropy' || config.klPenalty === null) return null;
  const { step, vector, reference: weights, signal } = comparison;
  if (!weights)
    throw new EngineError('no_reference', 'A KL penalty needs reference weights to compare with.');
  const { decisions } = step;
  const { isCentred, source } = config.klPenalty;
  const reference = await referenceLogprobs(comparison, weights, !isCentred);
  if (!isCentred) return { reference };
  const needsCurrent = source === 'current_learner' || decisions.some(({ logprob }) => logprob === null);
  const current = needsCurrent ? await step.logprobs(vector, signal) : [];
  const terms = decisions.map(({ logprob }, index) => ({
    sampled: logprob,
    reference: reference[index] as number,
    current: current[index] ?? null,
  }));
  return klPenaltyShifts(terms, config.klPenalty);
}

/** `asTrained`: with the same bits as the training's passes, so that equal weights differ by exactly 0. */
async function referenceLogprobs(
  { step, baseModel, passesOf, load, signal }: Comparison,
  weights: Weights,
  asTrained: boolean,
): Promise<number[]> {
  const vector = await load(weights);
  if (weights.baseModel === baseModel) return step.logprobs(vector, signal, { asTrained });
  const passes = await passesOf(weights.baseModel);
  const logprobs = await passes.logprobs(vector, signal);
  // Other micro-batches have the same decisions in another order.
  const byDecision = new Map(passes.decisions.map((decision, index) => [decision, logprobs[index]]));
  return step.decisions.map((decision) => byDecision.get(decision) as number);
}
