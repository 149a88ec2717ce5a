import type { Feeds, Runtime, Session } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import { decisionLogprobs } from './decision-logprobs.ts';
import { feedsOf, type MicroBatch } from './micro-batches.ts';

/** Some weights, and the graph that runs them. */
export interface ForwardModel {
  architecture: Architecture;
  graphs: { forward: Session };
  weights: Float32Array;
  /** Nothing more runs once it is aborted. */
  signal?: AbortSignal;
}

export interface ForwardPass {
  /** [rows, vocabulary] */
  logits: Float32Array;
  /** What the backward pass takes beside the logits' gradient. */
  backwardFeeds: Feeds;
}

export async function forwardPass(
  { architecture, graphs, weights, signal }: ForwardModel,
  batch: MicroBatch,
  runtime: Runtime,
): Promise<ForwardPass> {
  signal?.throwIfAborted();
  const { shared, causal, sources } = feedsOf(batch, architecture.previousTokens, runtime);
  const feeds = { ...shared, parameters: runtime.float(weights, [weights.length]) };
  const { logits, ...tape } = await graphs.forward.run({ ...feeds, causal });
  return { logits: logits?.data as Float32Array, backwardFeeds: { ...feeds, ...tape, sources } };
}

/** Log-probabilities of all decisions, in the order of the micro-batches. Nothing is learned from this pass. */
export async function logprobsUnder(
  model: ForwardModel,
  batches: readonly MicroBatch[],
  runtime: Runtime,
): Promise<number[]> {
  const logprobs: number[] = [];
  for (const batch of batches) {
    const { logits } = await forwardPass(model, batch, runtime);
    logprobs.push(...decisionLogprobs(batch, logits, model.architecture.vocabularySize));
  }
  return logprobs;
}
