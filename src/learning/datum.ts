import { MartingaleError } from '../contract/basics.ts';
import type { SamplingParameters } from './sampling-parameters.ts';

/**
 * One sequence to train on. The policy sampled the tokens in `spans`; everything else is context. A datum may contain
 * several choices of one conversation.
 */
export interface Datum<Constraint = unknown> {
  tokens: number[];
  spans: Span<Constraint>[];
}

export interface Span<Constraint = unknown> {
  /** Index in `tokens` of the first sampled token. */
  start: number;
  length: number;
  /** Log-probability of each token when it was sampled; null when not known. */
  logprobs: (number | null)[];
  /** The distribution the tokens were sampled from. */
  sampling: SamplingParameters;
  constraint: Constraint | null;
  /** Advantage of the span's choice; 1 in supervised training. */
  advantage: number;
  /**
   * Weight of each decision of the span in the loss; the same in every span of a datum. The weights of all decisions in
   * a batch add up to at most 1.
   */
  weight: number;
}

export interface KlPenalty {
  coefficient: number;
  source: 'current_learner' | 'sample';
  /**
   * Whether the mean of k is added, so that the batch's advantages keep their mean. Not with a teacher: A - k alone is the
   * gradient of the reverse KL to it.
   */
  isCentred: boolean;
}

/** How the importance ratio of a token is computed. See `LossConfig`. */
export type ImportanceLevel = 'token' | 'sequence' | 'average' | 'geometric_average';

/**
 * The loss of one token, with l its current log-probability, l0 that when it was sampled, and r its importance ratio:
 * `cross_entropy`: -l. `cispo`: -stop(clip(r, 1 - epsilon, 1 + epsilonHigh)) * A * l.
 * `ppo`: -min(r * A, clip(r, 1 - epsilon, 1 + epsilonHigh) * A).
 */
export type LossConfig =
  | { type: 'cross_entropy' }
  | {
      type: 'cispo' | 'ppo';
      epsilon: number;
      epsilonHigh: number;
      maskRatio: boolean;
      /** Upper bound of r, or null. */
      maxRatio: number | null;
      /** A becomes A - tau * stop(l - l0). */
      tau: number;
      /** Take l0 from the weights before the first update instead of from the sampler. */
      precalculateLogprobs: boolean;
      /** This times the entropy over the legal tokens is subtracted from the loss of each decision; 0 is off. */
      entropyCoefficient: number;
      /**
       * With d = l - l0 and s = exp(mean of d over the decisions of the datum): r is exp(d) (`token`), s (`sequence`),
       * their mean (`average`) or the root of their product (`geometric_average`).
       */
      importanceLevel: ImportanceLevel;
      /**
       * C: a token's loss is multiplied by stop(min(rho, C)), where rho is exp(l0 - sampled log-probability) with
       * `precalculateLogprobs`, and otherwise r before cap and mask. null is off.
       */
      truncation: number | null;
      /**
       * With k = stop(source's log-probability - reference's) for each decision, A becomes
       * A + coefficient * (mean of k over the batch's decisions - k), or A - coefficient * k if it is not centred. null is
       * off. The batch names the weights of the reference.
       */
      klPenalty: KlPenalty | null;
    };

/**
 * A reward or a span is invalid. Codes: `reward_not_finite`, `reward_too_large`, `span_out_of_bounds`,
 * `span_logprobs_length`.
 */
export class LearningError extends MartingaleError {}
