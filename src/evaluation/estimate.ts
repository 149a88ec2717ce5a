/** A mean over scenarios with its uncertainty. */
export interface Estimate {
  mean: number;
  /**
   * Standard error of the mean, from the sample variance of the scenarios' means: rollouts of one scenario are not
   * independent, so scenarios are what is counted (Miller, "Adding Error Bars to Evals", 2024, clustered errors).
   * Null for a single scenario.
   */
  standardError: number | null;
  /** mean -+ 1.96 standard errors (normal approximation); null with the standard error. */
  interval95: { low: number; high: number } | null;
}

/** Null for no values. */
export function estimate(values: readonly number[]): Estimate | null {
  const count = values.length;
  if (count === 0) return null;
  const mean = average(values);
  if (count === 1) return { mean, standardError: null, interval95: null };
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  const standardError = Math.sqrt(variance / count);
  const margin = 1.96 * standardError;
  return { mean, standardError, interval95: { low: mean - margin, high: mean + margin } };
}

/** NaN for no values. */
export function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
