import { EngineError, type SamplingParameters, type TokenLogprob } from '../../engine.ts';

/** A sampling distribution over the tokens of `support` (ascending ids). */
export interface Distribution {
  support: Int32Array;
  logprobs: Float64Array;
  probabilities: Float64Array;
  /**
   * For each token of the support, the derivative of its adjusted logit (before the temperature) by its raw logit. The
   * repetition penalty changes it; null when all are 1.
   */
  slopes: Float64Array | null;
}

/** Logits of some tokens, after everything that comes before the temperature. */
export interface AdjustedLogits {
  /** Ids, ascending. */
  support: Int32Array;
  values: Float64Array;
  /** As in `Distribution`. */
  slopes: Float64Array | null;
}

type CutOffs = Pick<SamplingParameters, 'temperature' | 'topK' | 'topP' | 'minP'>;

/** The logits at `offset` of the legal tokens, as they are. */
export function gatherLogits(logits: Float32Array, offset: number, legal: Int32Array): AdjustedLogits {
  const values = new Float64Array(legal.length);
  for (let index = 0; index < legal.length; index++)
    values[index] = logits[offset + (legal[index] as number)] as number;
  return { support: legal, values, slopes: null };
}

/**
 * The distribution that tokens are sampled from. The logits are divided by the temperature; then top-k, top-p and min-p
 * cut, in this order, each what the one before it left; the rest is renormalised. Temperature 0, which is greedy, counts
 * as 1 here: its log-probabilities are those at temperature 1. `keep` always stays in the support, so that a token that
 * was sampled has a probability under a later policy too. Overwrites `values` with the log-probabilities.
 */
export function distributionOf(
  { support, values, slopes }: AdjustedLogits,
  { temperature, topK, topP, minP }: CutOffs,
  keep?: number,
): Distribution {
  scale(values, temperature);
  const isCut = (topK > 0 && topK < support.length) || topP < 1 || minP > 0;
  if (!isCut) return normalise(support, values, slopes);
  const chosen = cut(values, { topK, topP, minP });
  const kept = keep === undefined ? -1 : support.indexOf(keep);
  if (kept >= 0 && !chosen.includes(kept)) chosen.push(kept);
  chosen.sort((a, b) => a - b);
  return normalise(
    Int32Array.from(chosen, (index) => support[index] as number),
    Float64Array.from(chosen, (index) => values[index] as number),
    slopes && Float64Array.from(chosen, (index) => slopes[index] as number),
  );
}

/** Below this, a logit divided by the temperature may be infinite. */
const smallTemperature = 1e-6;
/** Smallest scaled logit relative to the largest: it is finite, and its `exp` is 0. */
const lowest = -1e6;

/** Divides logits by the temperature, in place. */
function scale(values: Float64Array, temperature: number): void {
  if (temperature === 0 || temperature === 1) return;
  if (temperature >= smallTemperature) {
    for (let index = 0; index < values.length; index++)
      values[index] = (values[index] as number) / temperature;
    return;
  }
  const largest = values.reduce((max, value) => Math.max(max, value), Number.NEGATIVE_INFINITY);
  for (let index = 0; index < values.length; index++)
    values[index] = Math.max(lowest, ((values[index] as number) - largest) / temperature);
}

/** The softmax of the scaled logits. Overwrites `logprobs` with the log-probabilities. */
function normalise(support: Int32Array, logprobs: Float64Array, slopes: Float64Array | null): Distribution {
  // Indices, because an iterator over these values takes as long as the rest of the function.
  let largest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < logprobs.length; index++)
    if ((logprobs[index] as number) > largest) largest = logprobs[index] as number;
  const probabilities = new Float64Array(logprobs.length);
  let sum = 0;
  for (let index = 0; index < logprobs.length; index++) {
    const likelihood = Math.exp((logprobs[index] as number) - largest);
    probabilities[index] = likelihood;
    sum += likelihood;
  }
  const shift = largest + Math.log(sum);
  for (let index = 0; index < logprobs.length; index++) {
    logprobs[index] = (logprobs[index] as number) - shift;
    probabilities[index] = (probabilities[index] as number) / sum;
  }
  return { support, logprobs, probabilities, slopes };
}

/** Indices of the logits that the cut-offs leave. */
function cut(scaled: Float64Array, { topK, topP, minP }: Omit<CutOffs, 'temperature'>): number[] {
  const order = Array.from(scaled.keys()).sort(
    (a, b) => (scaled[b] as number) - (scaled[a] as number) || a - b,
  );
  if (topK > 0) order.length = Math.min(order.length, topK);
  const likeliest = scaled[order[0] as number] as number;
  let total = 0;
  for (const index of order) total += Math.exp((scaled[index] as number) - likeliest);
  let reached = 0;
  let count = 0;
  for (const index of order) {
    if (topP < 1 && count > 0 && reached >= topP) break;
    reached += Math.exp((scaled[index] as number) - likeliest) / total;
    count++;
  }
  order.length = count;
  return order.filter((index) => Math.exp((scaled[index] as number) - likeliest) >= minP);
}

/** Index in the support of the token that a number in [0, 1) picks. */
export function pick(distribution: Distribution, uniform: number): number {
  const { probabilities } = distribution;
  let rest = uniform;
  for (let index = 0; index < probabilities.length; index++) {
    rest -= probabilities[index] as number;
    if (rest < 0) return index;
  }
  return likeliest(distribution);
}

/** Index in the support of the likeliest token; the lowest id among equals. */
export function likeliest({ logprobs }: Distribution): number {
  let best = 0;
  for (let index = 1; index < logprobs.length; index++)
    if ((logprobs[index] as number) > (logprobs[best] as number)) best = index;
  return best;
}

/** The `count` likeliest tokens, likeliest first; among equals the lowest id first. */
export function topOf({ support, logprobs }: Distribution, count: number): TokenLogprob[] {
  if (count === 0) return [];
  return Array.from(support, (token, index) => ({ token, logprob: logprobs[index] as number }))
    .sort((a, b) => b.logprob - a.logprob || a.token - b.token)
    .slice(0, count);
}

/** Entropy in nats. */
export function entropyOf({ logprobs, probabilities }: Distribution): number {
  let entropy = 0;
  for (let index = 0; index < logprobs.length; index++)
    entropy -= (probabilities[index] as number) * (logprobs[index] as number);
  return entropy;
}

/** The error for NaN logits, from which nothing can be sampled. */
export function nanLogits(): EngineError {
  return new EngineError(
    'bad_checkpoint',
    "the model's logits are NaN; use an earlier checkpoint and train with a lower learning rate",
  );
}
