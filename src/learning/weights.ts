import { type Datum, LearningError, type Span } from './datum.ts';

/** What the policy sampled, before it is known what it was worth. */
export type SampledSpan<Constraint> = Omit<Span<Constraint>, 'advantage' | 'weight'> & {
  /** What the choice is credited with in place of its trajectory's reward. Absent or null: that reward. */
  credit?: number | null;
};

/** One history of a trajectory as token ids. */
export interface SampledSequence<Constraint> {
  tokens: number[];
  spans: SampledSpan<Constraint>[];
}

export interface AdvantagedSequence<Constraint> {
  tokens: number[];
  spans: Omit<Span<Constraint>, 'weight'>[];
}

export interface WeighedTrajectory<Constraint> {
  /** The sequences that train; none where the trajectory does not. */
  datums: Datum<Constraint>[];
  /** Decisions in `datums`. */
  decisions: number;
}

/**
 * How many of a span's tokens were a decision: those whose sampled log-probability is not exactly 0. A token
 * sampled with probability 1, such as one that a grammar forces, has no gradient and counts for nothing. An
 * unknown log-probability counts as a decision.
 */
export function countDecisions(span: Pick<Span, 'logprobs'>): number {
  let count = 0;
  // A loop: a batch has millions of them.
  for (const logprob of span.logprobs) if (logprob !== 0) count++;
  return count;
}

/**
 * Turns a trajectory, one of `trajectories` in the job, into datums. Every trajectory weighs the same whatever its
 * number of tokens: each decision weighs 1 / (trajectories * its decisions), so a batch's weights add up to at most 1.
 *
 * A trajectory in which no decision has an advantage has no datums but stays counted, so that a step shrinks with the
 * share of groups that have nothing to say; with `entropyCoefficient` above 0 it keeps its datums, which then add to
 * the entropy bonus alone. A trajectory without a decision has none. In a trajectory that trains, choices with
 * advantage 0 keep their position and their weight: what the others weigh does not depend on them.
 *
 * @throws LearningError `span_out_of_bounds` or `span_logprobs_length` where a span does not fit its sequence.
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
    // The first token of a sequence follows nothing, so nothing can have sampled it.
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
