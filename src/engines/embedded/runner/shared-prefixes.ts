import { projectionShape, projectionsOf } from '../checkpoint/tensors.ts';
import { type Architecture, kindOf } from '../weights/architecture.ts';

interface Tokens {
  tokens: readonly number[];
}

/** Where the sequences of a row part. */
export interface Branches {
  /** The number of tokens with which all sequences begin. */
  shared: number;
  /** Index in the row of each sequence's first token after the shared ones, ascending. */
  starts: readonly number[];
}

/** Padded rows that run together. */
export interface PaddedTokens {
  sequences: readonly (readonly number[])[];
  /** Padded length. */
  time: number;
  /** Where the sequences that share a row part. Default: each row is one sequence. */
  branches?: readonly Branches[];
}

/** The layout of a row that is one sequence. */
export const whole: Branches = { shared: 0, starts: [0] };

/**
 * A row of the graphs: the tokens with which its sequences begin, once, and then the rest of each. The rollouts of a
 * group have the same prompt, so that it runs once for several.
 */
export interface Row<Sequence extends Tokens> {
  tokens: number[];
  sequences: readonly Sequence[];
  branches: Branches;
}

/** Index in a row of a position of one of its sequences. */
export function rowIndex({ shared, starts }: Branches, sequence: number, position: number): number {
  return position < shared ? position : (starts[sequence] as number) + position - shared;
}

/**
 * Puts sequences with the same first tokens into rows where that takes less time: a row's attention is computed between
 * all of its tokens, so that long sequences with short prompts stay apart.
 *
 * `fits`: whether training a row of so many tokens fits into the memory for training.
 */
export function toRows<Sequence extends Tokens>(
  sequences: readonly Sequence[],
  architecture: Architecture,
  fits: (tokens: number) => boolean,
): Row<Sequence>[] {
  const cost = costOf(architecture);
  // In this order, those with the same first tokens are neighbours.
  const sorted = [...sequences].sort((a, b) => compare(a.tokens, b.tokens));
  const sharedWithNext = sorted.map(({ tokens }, at) => samePrefix(tokens, sorted[at + 1]?.tokens ?? tokens));
  /** The best rows of the first sequences, for each number of them: their cost, and the last row. */
  const best = [{ total: 0, start: 0, shared: 0 }];
  for (let end = 1; end <= sorted.length; end++) {
    let [shared, length] = [Number.POSITIVE_INFINITY, 0];
    let found = { total: Number.POSITIVE_INFINITY, start: end - 1, shared: 0 };
    for (let start = end - 1; start >= 0; start--) {
      const own = sorted[start]?.tokens.length ?? 0;
      shared = Math.min(shared, start + 1 < end ? (sharedWithNext[start] ?? 0) : own);
      length += own;
      const joined = length - (end - start - 1) * shared;
      if (start < end - 1 && (shared === 0 || !fits(joined))) break;
      const total = (best[start]?.total ?? 0) + cost(joined);
      if (total < found.total) found = { total, start, shared };
    }
    best.push(found);
  }
  const rows: Row<Sequence>[] = [];
  for (let end = sorted.length; end > 0; end = best[end]?.start ?? 0)
    rows.unshift(toRow(sorted.slice(best[end]?.start, end), best[end]?.shared ?? 0));
  return rows;
}

function toRow<Sequence extends Tokens>(sequences: readonly Sequence[], shared: number): Row<Sequence> {
  const row = sequences[0]?.tokens.slice(0, shared) ?? [];
  const starts: number[] = [];
  for (const { tokens } of sequences) {
    starts.push(row.length);
    for (let at = shared; at < tokens.length; at++) row.push(tokens[at] as number);
  }
  return { tokens: row, sequences, branches: { shared, starts } };
}

/**
 * Time of the layers' forward pass for a row, in multiplications by weights. Attention multiplies queries by keys and
 * itself by values; each takes as long as two by weights, with the softmax (seen on the CPU with SmolLM2-135M's shape).
 */
function costOf(architecture: Architecture): (tokens: number) => number {
  const { heads, headWidth, layers } = architecture;
  let [weights, scores] = [0, 0];
  for (let layer = 0; layer < layers; layer++) {
    const kind = kindOf(architecture, layer);
    for (const name of projectionsOf(architecture, kind)) {
      const [outputs, inputs] = projectionShape(architecture, name);
      weights += outputs * inputs;
    }
    if (kind === 'attention') scores += 4 * heads * headWidth;
  }
  return (tokens) => tokens * (weights + scores * tokens);
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = samePrefix(a, b);
  return at < a.length && at < b.length ? (a[at] as number) - (b[at] as number) : a.length - b.length;
}

/** The number of tokens with which both begin. */
function samePrefix(a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length, b.length);
  for (let at = 0; at < most; at++) if (a[at] !== b[at]) return at;
  return most;
}
