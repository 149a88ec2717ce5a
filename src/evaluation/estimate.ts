import { meanOf, sumOf } from '../util/sums.ts';
/** A mean over scenarios with its uncertainty. */
export interface Estimate {
  mean: number;
  /** Number of scenarios in the mean. */
  count: number;
  /**
   * Standard error of the mean, from the sample variance of the scenarios' means. Its unit is the scenario, because
   * rollouts of one scenario are not independent (Miller, "Adding Error Bars to Evals", 2024, clustered errors). Null
   * for a single scenario.
   */
  standardError: number | null;
  /** Null if the standard error is null. */
  interval95: Interval | null;
}

export interface Interval {
  low: number;
  high: number;
  /**
   * `normal`: mean ± 1.96 standard errors. `wilson`: Wilson's score interval, for shares, such as success and rewards of
   * 0 and 1; a normal interval would leave [0, 1], and would have no width if all scenarios or none succeeded.
   */
  method: 'normal' | 'wilson';
}

/** The ends of the 95 % interval; null without one. */
export const endsOf = (estimate: Estimate | null): [number, number] | null =>
  estimate?.interval95 ? [estimate.interval95.low, estimate.interval95.high] : null;

const z95 = 1.96;

/** The mean of any values, with a normal interval. Null for no values. */
export function estimate(values: readonly number[]): Estimate | null {
  const count = values.length;
  if (count === 0) return null;
  const mean = meanOf(values);
  if (count === 1) return { mean, count, standardError: null, interval95: null };
  const variance = sumOf(values, (value) => (value - mean) ** 2) / (count - 1);
  const standardError = Math.sqrt(variance / count);
  const interval95 = normalInterval({ mean, standardError }, { confidence: 0.95, areShares: false });
  return { mean, count, standardError, interval95 };
}

/**
 * The mean of one share per scenario, with Wilson's interval (1927). Its number of trials is the effective one,
 * p (1 - p) / SE^2: independent trials with the same standard error (Korn and Graubard, 1998). It is at least the number
 * of scenarios and at most `trials`; with one rollout per scenario it is the number of scenarios. Values outside [0, 1]
 * get a normal interval. Null for no values.
 */
export function estimateShare(values: readonly number[], { trials }: { trials: number }): Estimate | null {
  const plain = estimate(values);
  if (!plain || plain.standardError === null || values.some((value) => value < 0 || value > 1)) return plain;
  const { mean, count, standardError } = plain;
  const spread = mean * (1 - mean);
  // 0 / 0 if all scenarios or none succeeded: then nothing shows that rollouts are independent.
  const effective = spread > 0 ? spread / standardError ** 2 : count;
  const n = Math.min(Math.max(effective, count), Math.max(trials, count));
  const scale = 1 + z95 ** 2 / n;
  const centre = (mean + z95 ** 2 / (2 * n)) / scale;
  const margin = (z95 / scale) * Math.sqrt(spread / n + z95 ** 2 / (4 * n ** 2));
  const interval95: Interval = {
    low: Math.max(0, centre - margin),
    high: Math.min(1, centre + margin),
    method: 'wilson',
  };
  return { ...plain, interval95 };
}

/**
 * The mean of one reward per scenario. If every rollout had a reward of 0 or 1, it is a share and has Wilson's interval,
 * else a normal one: nothing tells the bounds of other rewards.
 */
export function estimateReward(values: readonly number[], rewards: readonly number[]): Estimate | null {
  return rewards.every(isZeroOrOne) ? estimateShare(values, { trials: rewards.length }) : estimate(values);
}

export const isZeroOrOne = (value: number): boolean => value === 0 || value === 1;

/**
 * The normal interval of a mean at a confidence. `areShares`: the mean is of differences of two shares, so the interval
 * ends at -1 and 1, beyond which no difference is. Null without a standard error.
 */
export function normalInterval(
  { mean, standardError }: Pick<Estimate, 'mean' | 'standardError'>,
  { confidence, areShares }: { confidence: number; areShares: boolean },
): Interval | null {
  if (standardError === null) return null;
  const margin = (confidence === 0.95 ? z95 : normalQuantile((1 + confidence) / 2)) * standardError;
  const bound = areShares ? 1 : Number.POSITIVE_INFINITY;
  return { low: Math.max(-bound, mean - margin), high: Math.min(bound, mean + margin), method: 'normal' };
}

/**
 * The value below which a standard normal variable is with probability `p`, from 0.5 to 0.9999: Newton's method on the
 * series of the distribution function (Marsaglia, "Evaluating the normal distribution", 2004).
 */
function normalQuantile(p: number): number {
  let x = 0;
  for (let step = 0; step < 50; step++) {
    let term = x;
    let sum = x;
    for (let odd = 3; term > sum * Number.EPSILON; odd += 2) {
      term *= x ** 2 / odd;
      sum += term;
    }
    const density = Math.exp(-(x ** 2) / 2) / Math.sqrt(2 * Math.PI);
    const correction = (p - 0.5 - density * sum) / density;
    x += correction;
    if (Math.abs(correction) < 1e-12) break;
  }
  return x;
}

/** Estimates of pass@k and pass^k. */
export interface PassAt {
  k: number;
  /** pass@k: at least one of k rollouts succeeds. Null if no scenario has k rollouts with a known success. */
  any: Estimate | null;
  /** pass^k: all of k rollouts succeed. */
  all: Estimate | null;
}

/**
 * The unbiased estimate of pass@k from n `rollouts` with c `successes`: 1 - C(n - c, k) / C(n, k) (Chen et al.,
 * arXiv:2107.03374). Null for fewer than k rollouts.
 */
export function passAnyOf(k: number, rollouts: number, successes: number): number | null {
  return rollouts < k ? null : 1 - shareOfDraws(k, rollouts, rollouts - successes);
}

/**
 * The unbiased estimate of pass^k: C(c, k) / C(n, k) (Yao et al., arXiv:2406.12045). Null for fewer than k rollouts.
 */
export function passAllOf(k: number, rollouts: number, successes: number): number | null {
  return rollouts < k ? null : shareOfDraws(k, rollouts, successes);
}

/** Means over the scenarios that have k rollouts with a known success. */
export function passAt(k: number, scenarios: readonly { judged: number; successes: number }[]): PassAt {
  const enough = scenarios.filter(({ judged }) => judged >= k);
  const trials = sumOf(enough, ({ judged }) => judged);
  const mean = (passAt: typeof passAnyOf) =>
    estimateShare(
      enough.flatMap(({ judged, successes }) => passAt(k, judged, successes) ?? []),
      { trials },
    );
  return { k, any: mean(passAnyOf), all: mean(passAllOf) };
}

/** C(some, k) / C(all, k), as a product that cannot overflow. */
function shareOfDraws(k: number, all: number, some: number): number {
  let share = 1;
  for (let drawn = 0; drawn < k; drawn++) share *= Math.max(0, some - drawn) / (all - drawn);
  return share;
}
