import crypto from 'node:crypto';

/** Facts of the sampled replies of a trajectory, which stay when their tokens go. */
export interface Replies {
  /** Four-token sequences within a reply, and how many of them repeat an earlier one. */
  repeats: { sequences: number; repeated: number };
  /** Equal for equal replies. */
  hash: string;
}

/** @param replies The tokens of each reply, in the order of the calls. */
export function describeReplies(replies: readonly (readonly number[])[]): Replies {
  const repeats = { sequences: 0, repeated: 0 };
  for (const tokens of replies) {
    const { sequences, repeated } = countRepeats(tokens);
    repeats.sequences += sequences;
    repeats.repeated += repeated;
  }
  const numbers = replies.flatMap((tokens) => [tokens.length, ...tokens]);
  return { repeats, hash: crypto.hash('sha256', Float64Array.from(numbers), 'base64') };
}

/** Number of four-token sequences in a reply, and how many of them repeat an earlier one. */
export function countRepeats(tokens: readonly number[]): { sequences: number; repeated: number } {
  const fours = numberPairs(numberPairs(tokens, 1), 2);
  return { sequences: fours.length, repeated: fours.length - new Set(fours).size };
}

/**
 * Numbers the pairs of the items at `at` and `at + distance`: equal pairs get the same number. Items are integers below
 * 2^26, so that a pair fits into one number.
 */
function numberPairs(items: readonly number[], distance: number): number[] {
  const size = 1 + items.reduce((max, item) => Math.max(max, item), 0);
  const seen = new Map<number, number>();
  const pairs: number[] = [];
  for (let at = 0; at + distance < items.length; at++) {
    const pair = (items[at] ?? 0) * size + (items[at + distance] ?? 0);
    const number = seen.get(pair) ?? seen.size;
    seen.set(pair, number);
    pairs.push(number);
  }
  return pairs;
}

/** Share of a reply's four-token sequences that repeat an earlier one; 0 for fewer than four tokens. */
export function repeatedShare(tokens: readonly number[]): number {
  const { sequences, repeated } = countRepeats(tokens);
  return sequences === 0 ? 0 : repeated / sequences;
}
