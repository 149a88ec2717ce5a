import type { Feeds, Runtime } from '../runtime.ts';
import { type PaddedTokens, rowIndex, whole } from './shared-prefixes.ts';

/**
 * Which rows of a batch the convolutions see: see `ConvolutionParts`. No token sees one of another sequence, and none sees
 * padding, which comes last.
 */
export function convolutionFeeds(
  runtime: Runtime,
  taps: number,
  { sequences, time, branches = [] }: PaddedTokens,
): Feeds {
  const tokens = sequences.length * time;
  const earlier = new Int32Array(tokens * taps);
  /** The terms of each token's gradient. */
  const terms = Array.from({ length: tokens }, (): number[] => []);
  for (let row = 0; row < sequences.length; row++) {
    const { shared, starts } = branches[row] ?? whole;
    let sequence = 0;
    for (let at = 0; at < time; at++) {
      while ((starts[sequence + 1] ?? time) <= at) sequence++;
      const position = at < shared ? at : shared + at - (starts[sequence] as number);
      for (let tap = Math.max(0, taps - 1 - position); tap < taps; tap++) {
        const seen = position - (taps - 1) + tap;
        const source = row * time + rowIndex({ shared, starts }, sequence, seen);
        const term = (row * time + at) * taps + tap;
        earlier[term] = 1 + source;
        terms[source]?.push(1 + term);
      }
    }
  }
  const joined = terms.filter((own) => own.length > taps);
  const most = joined.reduce((length, own) => Math.max(length, own.length), 1);
  const sums = new Int32Array(Math.max(1, joined.length) * most);
  const later = new Int32Array(tokens * taps);
  let sum = 0;
  for (const [token, own] of terms.entries())
    if (own.length <= taps) later.set(own, token * taps);
    else {
      sums.set(own, sum * most);
      later[token * taps] = 1 + tokens * taps + sum++;
    }
  return {
    earlier: runtime.integer(earlier, [tokens, taps]),
    later: runtime.integer(later, [tokens, taps]),
    joined: runtime.integer(sums, [sums.length / most, most]),
  };
}
