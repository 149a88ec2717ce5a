import { EngineError, type SamplingParameters, type TokenLogprob } from '../../engine.ts';

/**
 * Rows of logits as the graphs output them: z, its maximum m over the vocabulary, and exp(z - m). With the exponentials
 * computed in the graph, choosing and training a token only adds numbers in JavaScript.
 */
export interface LogitRows {
  /** z, [rows, vocabulary]. */
  logits: Float32Array;
  /** m, [rows]. */
  largest: Float32Array;
  /** exp(z - m), [rows, vocabulary]. */
  likelihoods: Float32Array;
}

export const rowLength = ({ logits, largest }: LogitRows) => logits.length / largest.length;

export function copyRow(rows: LogitRows, row: number): LogitRows {
  const [from, to] = [row * rowLength(rows), (row + 1) * rowLength(rows)];
  return {
    logits: rows.logits.slice(from, to),
    largest: rows.largest.slice(row, row + 1),
    likelihoods: rows.likelihoods.slice(from, to),
  };
}

/**
 * A sampling distribution over the tokens of `support` (ascending ids). The values of the token `support[i]` are
 * at `offset + positions[i]`. It may read the graph's outputs in place, so use it before the next run.
 */
export interface Distribution {
  support: Int32Array;
  positions: Int32Array;
  offset: number;
  /** Adjusted logits a, divided by the temperature. */
  values: Float32Array | Float64Array;
  /** exp(a - c) for one constant c. */
  likelihoods: Float32Array | Float64Array;
  /** The sum of the support's likelihoods: a probability is a likelihood divided by it. */
  total: number;
  /** c + log(total): a log-probability is a value minus it. */
  shift: number;
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
 * was sampled has a probability under a later policy too. Scales `values` in place.
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
export const smallTemperature = 1e-6;
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

/** Below this sum of 32-bit likelihoods, the likelihoods of the support may have lost digits. */
const smallTotal = 1e-30;

/**
 * The softmax over the legal tokens of one row, without any array. Null where the legal tokens are so much less likely
 * than another one that their likelihoods have lost digits, and where a logit is NaN.
 */
export function softmaxOf(rows: LogitRows, row: number, legal: Int32Array): Distribution | null {
  const { logits: values, largest, likelihoods } = rows;
  const offset = row * rowLength(rows);
  let total = 0;
  for (let index = 0; index < legal.length; index++)
    total += likelihoods[offset + (legal[index] as number)] as number;
  if (!(total > smallTotal)) return null;
  const shift = (largest[row] as number) + Math.log(total);
  return { support: legal, positions: legal, offset, values, likelihoods, total, shift, slopes: null };
}

let ascending = new Int32Array(0);

/** The numbers from 0, at least `count` of them. */
function numbers(count: number): Int32Array {
  if (ascending.length < count) ascending = Int32Array.from({ length: count }, (_, index) => index);
  return ascending;
}

/** The softmax of the scaled logits. */
function normalise(support: Int32Array, values: Float64Array, slopes: Float64Array | null): Distribution {
  // Indices, because an iterator over these values takes as long as the rest of the function.
  let largest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < values.length; index++)
    if ((values[index] as number) > largest) largest = values[index] as number;
  const likelihoods = new Float64Array(values.length);
  let total = 0;
  for (let index = 0; index < values.length; index++) {
    const likelihood = Math.exp((values[index] as number) - largest);
    likelihoods[index] = likelihood;
    total += likelihood;
  }
  const shift = largest + Math.log(total);
  return {
    support,
    positions: numbers(support.length),
    offset: 0,
    values,
    likelihoods,
    total,
    shift,
    slopes,
  };
}

/**
 * Indices of the logits that the cut-offs leave, ascending; among equals the lowest come first. Only the values are
 * sorted, because sorting indices takes ten times as long.
 */
function cut(scaled: Float64Array, { topK, topP, minP }: Omit<CutOffs, 'temperature'>): number[] {
  const descending = scaled.slice().sort().reverse();
  const likeliest = descending[0] as number;
  const most = topK > 0 ? Math.min(topK, scaled.length) : scaled.length;
  const likelihoodAt = (rank: number) => Math.exp((descending[rank] as number) - likeliest);
  let total = 0;
  for (let rank = 0; rank < most; rank++) total += likelihoodAt(rank);
  let reached = 0;
  let count = 0;
  while (count < most && !(topP < 1 && count > 0 && reached >= topP))
    reached += likelihoodAt(count++) / total;
  while (count > 1 && !(likelihoodAt(count - 1) >= minP)) count--;
  const smallest = descending[count - 1] as number;
  let equals = count - descending.indexOf(smallest);
  const indices: number[] = [];
  for (let index = 0; index < scaled.length; index++) {
    const value = scaled[index] as number;
    if (value > smallest || (value === smallest && equals-- > 0)) indices.push(index);
  }
  return indices;
}

/** Log-probability of the token at an index of the support. */
export function logprobAt({ values, positions, offset, shift }: Distribution, index: number): number {
  return (values[offset + (positions[index] as number)] as number) - shift;
}

/** Index in the support of the token that a number in [0, 1) picks. */
export function pick(distribution: Distribution, uniform: number): number {
  const { likelihoods, positions, offset, support, total } = distribution;
  let rest = uniform * total;
  for (let index = 0; index < support.length; index++) {
    rest -= likelihoods[offset + (positions[index] as number)] as number;
    if (rest < 0) return index;
  }
  return likeliest(distribution);
}

/** Index in the support of the likeliest token; the lowest id among equals. */
export function likeliest({ values, positions, offset, support }: Distribution): number {
  let best = 0;
  let largest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < support.length; index++) {
    const value = values[offset + (positions[index] as number)] as number;
    if (!(value > largest)) continue;
    best = index;
    largest = value;
  }
  return best;
}

/** The `count` likeliest tokens, likeliest first; among equals the lowest id first. */
export function topOf(distribution: Distribution, count: number): TokenLogprob[] {
  if (count === 0) return [];
  const { support } = distribution;
  const top: TokenLogprob[] = [];
  for (let index = 0; index < support.length; index++) {
    const logprob = logprobAt(distribution, index);
    if (top.length === count && logprob <= (top[count - 1] as TokenLogprob).logprob) continue;
    let rank = top.length;
    while (rank > 0 && logprob > (top[rank - 1] as TokenLogprob).logprob) rank--;
    top.splice(rank, 0, { token: support[index] as number, logprob });
    if (top.length > count) top.pop();
  }
  return top;
}

/** Entropy in nats: shift - sum_i p_i a_i. */
export function entropyOf(distribution: Distribution): number {
  const { values, likelihoods, positions, offset, support, total, shift } = distribution;
  let sum = 0;
  for (let index = 0; index < support.length; index++) {
    const at = offset + (positions[index] as number);
    const likelihood = likelihoods[at] as number;
    // A value of -Infinity has the likelihood 0; their product would be NaN.
    if (likelihood > 0) sum += likelihood * (values[at] as number);
  }
  return shift - sum / total;
}

/** The error for NaN logits, from which nothing can be sampled. */
export function nanLogits(): EngineError {
  return new EngineError(
    'bad_checkpoint',
    "The model's logits are NaN. Use an earlier checkpoint, and train with a lower learning rate.",
  );
}
