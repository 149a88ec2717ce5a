import type { Distribution } from '../distribution.ts';

/** A reply in the making and what may follow it. */
export interface Weighed {
  /** Sum of its log-probabilities. */
  sum: number;
  distribution: Distribution;
}

/** One more token after one of the beams. */
export interface Candidate {
  /** Index of the beam. */
  beam: number;
  /** Index in the support of the beam's distribution. */
  index: number;
  sum: number;
}

/**
 * Every token that may follow a beam, the largest sum first; among equals the earlier beam, then the lower token.
 * Tokens of probability 0 do not come, nor those of none at all (NaN). Only as much is put in order as is taken: of
 * thousands, a search wants a few.
 */
export function* candidatesOf(beams: readonly Weighed[]): Generator<Candidate> {
  const heads = beams.map((_, beam) => bestAfter(beams, beam, null));
  for (;;) {
    let best: Candidate | null = null;
    for (const head of heads) if (head && (!best || head.sum > best.sum)) best = head;
    if (!best) return;
    heads[best.beam] = bestAfter(beams, best.beam, best);
    yield best;
  }
}

/** The beam's best candidate behind the one that was taken last. */
function bestAfter(beams: readonly Weighed[], beam: number, last: Candidate | null): Candidate | null {
  const { sum, distribution } = beams[beam] as Weighed;
  const { logprobs } = distribution;
  const limit = last ? (logprobs[last.index] as number) : Number.POSITIVE_INFINITY;
  let found = -1;
  let largest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < logprobs.length; index++) {
    const value = logprobs[index] as number;
    if (!(value > largest && value <= limit)) continue;
    if (value === limit && last && index <= last.index) continue;
    found = index;
    largest = value;
  }
  return found < 0 ? null : { beam, index: found, sum: sum + largest };
}
