import { randomSource } from '../trajectory/index.ts';

/** The test that a p value comes from. */
export interface SignFlipTest {
  name: 'paired sign-flip permutation test';
  /** `exact`: every assignment of signs; `monte_carlo`: that many drawn at random. */
  method: 'exact' | 'monte_carlo';
  assignments: number;
  /** Two-sided: how often differences at least as large arise if the two are the same on every scenario. */
  pValue: number;
}

/** 2^16 assignments take about a millisecond, and leave nothing to chance. */
const mostForExact = 16;
const drawnAssignments = 10_000;

/**
 * Fisher's permutation test (1935) on paired differences: if it makes no difference which of the two a value comes
 * from, each difference could as well have had the other sign. Differences of 0 have none and change nothing. With
 * drawn assignments the observed one counts as one more of them, so that p is never 0 (Phipson and Smyth, 2010).
 */
export function signFlipTest(differences: readonly number[], seed: number): SignFlipTest {
  const sizes = differences.map(Math.abs).filter((size) => size > 0);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const observed = Math.abs(differences.reduce((sum, difference) => sum + difference, 0));
  // Sums of the same numbers in another order differ by rounding.
  const threshold = observed - total * 1e-9;
  const base = { name: 'paired sign-flip permutation test' } as const;
  if (sizes.length <= mostForExact) {
    const assignments = 2 ** sizes.length;
    const asLarge = countExact(sizes, threshold);
    return { ...base, method: 'exact', assignments, pValue: asLarge / assignments };
  }
  const random = randomSource(seed);
  let asLarge = 1;
  for (let drawn = 0; drawn < drawnAssignments; drawn++) {
    let sum = 0;
    for (const size of sizes) sum += random() < 0.5 ? size : -size;
    if (Math.abs(sum) >= threshold) asLarge++;
  }
  return {
    ...base,
    method: 'monte_carlo',
    assignments: drawnAssignments,
    pValue: asLarge / (drawnAssignments + 1),
  };
}

function countExact(sizes: readonly number[], threshold: number): number {
  const count = (at: number, sum: number): number => {
    const size = sizes[at];
    if (size === undefined) return Math.abs(sum) >= threshold ? 1 : 0;
    return count(at + 1, sum + size) + count(at + 1, sum - size);
  };
  return count(0, 0);
}
