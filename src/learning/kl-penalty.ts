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
