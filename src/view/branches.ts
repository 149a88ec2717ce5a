import type { CandidateRow } from './api.ts';

/** A candidate in the tree, with the number of candidates above it. */
interface Branch {
  candidate: CandidateRow;
  depth: number;
}

/** The candidates with each one below its parent, in the order in which they were made. */
export function branchesOf(candidates: readonly CandidateRow[]): Branch[] {
  const below = (parent: number | null, depth: number): Branch[] =>
    candidates
      .filter((candidate) => candidate.parent === parent)
      .flatMap((candidate) => [{ candidate, depth }, ...below(candidate.number, depth + 1)]);
  return below(null, 0);
}
