import { sumOf } from '../util/sums.ts';
import type { KlPenalty } from './datum.ts';

/** Differences between the weights being trained and the weights that sampled, over the tokens of a batch. */
interface OffPolicySummary {
  /** Number of tokens. */
  tokens: number;
  /** Fraction of tokens whose loss the cap, the mask, the clip or the truncation changed; 0 without tokens. */
  clippedFraction: number;
  /**
   * Estimate of KL(sampler || trainer) in nats for each token, over tokens whose sampled log-probability is known:
   * the mean of exp(d) - 1 - d with d = l - l0. The tokens come from the sampler, so this estimate is unbiased in that
   * direction, and it is never negative ("k3" of http://joschu.net/blog/kl-approx.html).
   */
  kl: number;
  /** Largest |l - l0|. With the weights that sampled, it is only rounding. */
  maxLogprobDifference: number;
}

/** Computes an `OffPolicySummary`, one token at a time. */
export class OffPolicyDiagnostics {
  #tokens = 0;
  #clipped = 0;
  #compared = 0;
  #kl = 0;
  #maxDifference = 0;

  /** `clipped`: the token's `clipped` of `datumLoss`. */
  add(logprob: number, sampledLogprob: number | null, clipped: boolean): void {
    this.#tokens++;
    if (clipped) this.#clipped++;
    if (sampledLogprob === null) return;
    const difference = logprob - sampledLogprob;
    this.#compared++;
    // expm1 keeps the digits that exp(d) - 1 loses near 0, where most tokens are.
    this.#kl += Math.expm1(difference) - difference;
    this.#maxDifference = Math.max(this.#maxDifference, Math.abs(difference));
  }

  summary(): OffPolicySummary {
    return {
      tokens: this.#tokens,
      clippedFraction: this.#tokens === 0 ? 0 : this.#clipped / this.#tokens,
      kl: this.#compared === 0 ? 0 : this.#kl / this.#compared,
      maxLogprobDifference: this.#maxDifference,
    };
  }
}

/** The log-probabilities (natural logarithm) that the KL penalty compares for one decision. */
interface KlTerm {
  /** Under the weights being trained. May be null only when the source is `sample` and `sampled` is known. */
  current: number | null;
  /** When it was sampled; null when not known. */
  sampled: number | null;
  reference: number;
}

export interface KlPenaltyShifts {
  /** Mean of k in nats: an estimate of KL(source || reference) for each token. */
  mean: number;
  /** The change of each decision's advantage. */
  shifts: Float64Array;
}

/**
 * The KL penalty towards reference weights: with k = source's log-probability - reference's, the advantage of each
 * decision changes by coefficient * (mean of k over the batch's decisions - k). k has no gradient. So the advantage of
 * a token falls when its log-probability exceeds the reference's by more than the batch's mean. The source is the
 * weights being trained (`current_learner`) or those that sampled (`sample`; the former when the sampled value is not
 * known).
 *
 * If it is not centred, the change is -coefficient * k: on tokens of the weights being trained, this is the gradient of
 * their KL divergence to the reference (on-policy distillation: Agarwal et al. 2024, arXiv:2306.13649, with the reverse
 * KL). Then decisions can be passed in parts.
 */
export function klPenaltyShifts(
  terms: readonly KlTerm[],
  { coefficient, source, isCentred }: KlPenalty,
): KlPenaltyShifts {
  const differences = Float64Array.from(terms, ({ current, sampled, reference }) => {
    const compared = source === 'sample' ? (sampled ?? current) : current;
    return (compared ?? reference) - reference;
  });
  const mean = terms.length === 0 ? 0 : sumOf(differences) / terms.length;
  const baseline = isCentred ? mean : 0;
  return { mean, shifts: differences.map((value) => coefficient * (baseline - value)) };
}
