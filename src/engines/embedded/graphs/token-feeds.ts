import type { Feeds, Runtime } from '../runtime.ts';

/** Tokens of a sequence from `start` to `end`, in a run's flat list of tokens from `offset` on. */
export interface TokenRange {
  tokens: readonly number[];
  start: number;
  end: number;
  offset: number;
}

/**
 * The inputs of all graphs that say which tokens to run: `ids`, and `previous.k`, the id k positions before each token.
 * It is 0 before the sequence and in padding.
 */
export function tokenFeeds(
  runtime: Runtime,
  previousTokens: number,
  shape: readonly number[],
  ranges: readonly TokenRange[],
): Feeds {
  const size = shape.reduce((product, dimension) => product * dimension, 1);
  const feeds: Feeds = {};
  for (let distance = 0; distance <= previousTokens; distance++) {
    const ids = new BigInt64Array(size);
    for (const { tokens, start, end, offset } of ranges)
      for (let position = Math.max(start, distance); position < end; position++)
        ids[offset + position - start] = BigInt(tokens[position - distance] as number);
    feeds[distance === 0 ? 'ids' : `previous.${distance}`] = runtime.integer(ids, shape);
  }
  return feeds;
}
