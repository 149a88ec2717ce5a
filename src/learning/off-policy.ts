/** How far the weights being trained are from those that sampled, over the tokens of a batch. */
export interface OffPolicySummary {
  /** Tokens counted. */
  tokens: number;
  /** Share of them whose ratio the cap, the mask, the clip or the truncation bound; 0 of no tokens. */
  clippedFraction: number;
  /**
   * Estimate of KL(sampler || trainer) in nats a token, over tokens whose sampled log-probability is known:
   * the mean of exp(d) - 1 - d with d = l - l0. The tokens come from the sampler, so this form is unbiased in that
   * direction, and never negative ("k3" of http://joschu.net/blog/kl-approx.html).
   */
  kl: number;
  /** Largest |l - l0|. With the weights that sampled it is rounding alone. */
  maxLogprobDifference: number;
}

/** Gathers an `OffPolicySummary` token by token. */
export class OffPolicyDiagnostics {
  #tokens = 0;
  #clipped = 0;
  #compared = 0;
  #kl = 0;
  #maxDifference = 0;

  /** `clipped` is what `datumLoss` said of the token. */
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

/** What the KL penalty compares for one decision of a batch: log-probabilities (natural logarithm). */
export interface KlTerm {
  /** Under the weights being trained. null: not computed; only where the source is `sample` and `sampled` is known. */
  current: number | null;
  /** When it was sampled; null: not known. */
  sampled: number | null;
  reference: number;
}

export interface KlPenaltyShifts {
  /** Mean of k in nats: an estimate of KL(source || reference) a token. */
  mean: number;
  /** What each decision's advantage changes by. */
  shifts: Float64Array;
}

/**
 * The KL penalty towards reference weights: with k = source's log-probability - reference's, the advantage of each
 * decision changes by coefficient * (mean of k over the batch's decisions - k). k has no gradient. A token that has
 * become likelier than the reference has it, by more than the batch's tokens on average, is worth less. The source is
 * the weights being trained (`current_learner`) or those that sampled (`sample`; the former where that is not known).
 */
export function klPenaltyShifts(
  terms: readonly KlTerm[],
  { coefficient, source }: { coefficient: number; source: 'current_learner' | 'sample' },
): KlPenaltyShifts {
  const differences = Float64Array.from(terms, ({ current, sampled, reference }) => {
    const compared = source === 'sample' ? (sampled ?? current) : current;
    return (compared ?? reference) - reference;
  });
  const mean =
    terms.length === 0 ? 0 : differences.reduce((sum, value) => sum + value, 0) / differences.length;
  return { mean, shifts: differences.map((value) => coefficient * (mean - value)) };
}
