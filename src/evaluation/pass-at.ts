import { type Estimate, estimateShare } from './estimate.ts';

/** How often k rollouts of a scenario succeed. */
export interface PassAt {
  k: number;
  /** pass@k: at least one of k rollouts succeeds. Null where no scenario has k completed rollouts. */
  any: Estimate | null;
  /** pass^k: all of k rollouts succeed. */
  all: Estimate | null;
}

/**
 * The unbiased estimate of pass@k from `rollouts` of which `successes` succeeded: 1 - C(n - c, k) / C(n, k) (Chen et
 * al., arXiv:2107.03374). Null for fewer than k rollouts.
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
  const trials = enough.reduce((sum, { judged }) => sum + judged, 0);
  const mean = (of: typeof passAnyOf) =>
    estimateShare(
      enough.flatMap(({ judged, successes }) => of(k, judged, successes) ?? []),
      { trials },
    );
  return { k, any: mean(passAnyOf), all: mean(passAllOf) };
}

/** C(some, k) / C(all, k), as a product that no factorial overflows. */
function shareOfDraws(k: number, all: number, some: number): number {
  let share = 1;
  for (let drawn = 0; drawn < k; drawn++) share *= Math.max(0, some - drawn) / (all - drawn);
  return share;
}
