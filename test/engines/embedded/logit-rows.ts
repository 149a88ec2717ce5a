import {
  type Distribution,
  type LogitRows,
  logprobAt,
} from '../../../src/engines/embedded/sampling/distribution.ts';

/** Rows of logits as a graph outputs them, computed in float64 and rounded. */
export function logitRows(logits: Float32Array, vocabularySize = logits.length): LogitRows {
  const rows = Array.from({ length: logits.length / vocabularySize }, (_, row) =>
    logits.subarray(row * vocabularySize, (row + 1) * vocabularySize),
  );
  const largest = Float32Array.from(rows, (row) => Math.max(...row));
  const likelihoods = logits.map((value, index) =>
    Math.exp(value - (largest[Math.floor(index / vocabularySize)] as number)),
  );
  return { logits, largest, likelihoods };
}

/** The log-probabilities of a distribution, in the order of its support. */
export function logprobsOf(distribution: Distribution): number[] {
  return Array.from(distribution.support, (_, index) => logprobAt(distribution, index));
}
