import { EngineError } from '../../engine-error.ts';
import type { Distribution } from '../distribution.ts';
import type { MicroBatch } from './micro-batches.ts';

/** The log-probability of a token of the support. */
export function logprobOf({ support, logprobs }: Distribution, token: number): number {
  const logprob = logprobs[support.indexOf(token)];
  if (logprob === undefined || !Number.isFinite(logprob))
    throw new EngineError(
      'loss_not_finite',
      `the log-probability of token ${token} is ${logprob}; lower the learning rate`,
    );
  return logprob;
}

/** Log-probabilities of a micro-batch's decisions, in order, of logits [rows, vocabulary]. */
export function decisionLogprobs(
  { decisions }: Pick<MicroBatch, 'decisions'>,
  logits: Float32Array,
  vocabularySize: number,
): number[] {
  return decisions
    .flat()
    .map(({ decision, row }) =>
      logprobOf(decision.distribution(logits, row * vocabularySize), decision.token),
    );
}
