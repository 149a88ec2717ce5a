/**
 * Derives a seed from another seed and a path of integers, such as (step, group, rollout). The same path always gives
 * the same seed, and neighbouring paths give unrelated seeds. The mix function is the finalizer of MurmurHash3
 * (Appleby, 2011). Returns an unsigned 32-bit integer.
 */
export function deriveSeed(seed: number, ...path: number[]): number {
  let state = mix(Math.floor(seed / 2 ** 32) ^ mix(seed >>> 0));
  for (const position of path) state = mix(state ^ mix((position + 0x9e3779b9) >>> 0));
  return state;
}

/** A seeded random number generator (mulberry32). Each call returns a number in [0, 1). */
export function randomSource(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}

function mix(word: number): number {
  let state = word >>> 0;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
