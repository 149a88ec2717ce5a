import { type Datum, LearningError, type Span } from './datum.ts';

/** A span before its advantage and weight are computed. */
export type SampledSpan<Constraint> = Omit<Span<Constraint>, 'advantage' | 'weight'> & {
  /** The choice's credit; absent or null: its trajectory's reward applies. */
  credit?: number | null;
};

/** One history of a trajectory, tokenized. */
export interface SampledSequence<Constraint> {
  tokens: number[];
  spans: SampledSpan<Constraint>[];
}

export interface AdvantagedSequence<Constraint> {
  tokens: number[];
  spans: Omit<Span<Constraint>, 'weight'>[];
}

export interface WeighedTrajectory<Constraint> {
  /** The sequences to train on; empty when the trajectory has no signal. */
  datums: Datum<Constraint>[];
  /** Decisions in `datums`. */
  decisions: number;
}

/**
 * The number of decisions in a span: tokens whose sampled log-probability is not exactly 0. A token sampled with
 * probability 1, such as one that a grammar forces, has no gradient and does not count. A token with an unknown
 * log-probability counts as a decision.
 */
export function countDecisions(span: Pick<Span, 'logprobs'>): number {
  let count = 0;
  // A plain loop, because a batch may have millions of tokens.
  for (const logprob of span.logprobs) if (logprob !== 0) count++;
  return count;
}

/**
 * Turns a trajectory, one of `trajectories` in the job, into datums. Every trajectory has the same weight whatever its
 * number of tokens: each decision weighs 1 / (trajectories * decisions of its trajectory). So the weights of a batch
 * add up to at most 1.
 *
 * A trajectory in which no decision has an advantage has no datums but still counts in `trajectories`, so that the step
 * is smaller when fewer groups have a signal. With `entropyCoefficient` above 0 it keeps its datums, which contribute
 * only to the entropy bonus. A trajectory without decisions never has datums. If some choices of a trajectory have
 * advantage 0, they keep their weight, so that they do not change the weight of the others.
 *
 * @throws LearningError `span_out_of_bounds` or `span_logprobs_length` when a span does not fit its sequence.
 */
export function weighTrajectory<Constraint>(
  sequences: readonly AdvantagedSequence<Constraint>[],
  { trajectories, entropyCoefficient }: { trajectories: number; entropyCoefficient: number },
): WeighedTrajectory<Constraint> {
  const deciding = sequences
    .map((sequence) => ({ sequence, decisions: sequenceDecisions(sequence) }))
    .filter(({ decisions }) => decisions > 0);
  const decisions = deciding.reduce((sum, entry) => sum + entry.decisions, 0);
  if (decisions === 0 || !(entropyCoefficient > 0 || hasAdvantage(sequences)))
    return { datums: [], decisions: 0 };
  const weight = 1 / (trajectories * decisions);
  const datums = deciding.map(({ sequence: { tokens, spans } }) => ({
    tokens,
    spans: spans.map((span) => ({ ...span, weight })),
  }));
  return { decisions, datums };
}

/** Whether any decision has an advantage other than 0. */
export function hasAdvantage(sequences: readonly AdvantagedSequence<unknown>[]): boolean {
  return sequences.some(({ spans }) =>
    spans.some((span) => span.advantage !== 0 && countDecisions(span) > 0),
  );
}

function sequenceDecisions({ tokens, spans }: AdvantagedSequence<unknown>): number {
  return spans.reduce((sum, span) => {
    const { start, length, logprobs } = span;
    // The first token of a sequence has no prompt, so it cannot have been sampled.
    if (!Number.isInteger(start) || start < 1 || length < 0 || start + length > tokens.length) {
      throw new LearningError(
        'span_out_of_bounds',
        `A span of ${length} tokens from index ${start} does not lie in its sequence of ${tokens.length} tokens after the first one.`,
      );
    }
    if (logprobs.length !== length) {
      throw new LearningError(
        'span_logprobs_length',
        `A span of ${length} tokens has ${logprobs.length} log-probabilities. Give one for each token, null where it is not known.`,
      );
    }
    return sum + countDecisions(span);
  }, 0);
}
