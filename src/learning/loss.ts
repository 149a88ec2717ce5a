import { sumOf } from '../util/sums.ts';
import type { LossConfig } from './datum.ts';
import type { PolicyLossConfig } from './resolve-config.ts';

/** Beyond this, the exponential of a log-ratio overflows an engine's float32. Training does not get there. */
const maxLogRatio = 80;

/** One decision of a datum, in the order of its tokens. */
export interface LossDecision {
  /** l: log-probability of the token under the weights being trained (natural logarithm). */
  logprob: number;
  /** Log-probability when it was sampled; null when not known: then stop(l) is used instead. */
  sampledLogprob: number | null;
  /** A, including the shift of the KL penalty (see `klPenaltyShifts`). */
  advantage: number;
}

interface DatumLoss {
  /** The loss of each decision, before its weight and without the entropy bonus. */
  losses: Float64Array;
  /**
   * For each decision, the derivative of the **sum** of the losses by its l, without the stopped gradients. For all
   * importance levels but `token`, l also changes the losses of the datum's other decisions.
   */
  gradient: Float64Array;
  /** Whether the cap, the mask, the clip or the truncation changed the decision's loss. */
  clipped: boolean[];
}

/**
 * The losses of a datum's decisions and their derivatives by the log-probabilities, so that an engine can train every
 * loss with one graph. The caller applies the weight, which is the same for all decisions of a datum.
 *
 * Cross-entropy: -l. Otherwise, l0 is the sampled log-probability, or stop(l) if that is missing or with
 * `precalculateLogprobs` (an option for the first update only, when l is the log-probability before any update);
 * d = l - l0, A is the advantage, and r the ratio of the config's level (`importanceRatios`):
 * 1. rho = exp(l0 - sampled) with `precalculateLogprobs`, r otherwise.
 * 2. `maxRatio` c: r = min(r, c).
 * 3. `maskRatio`: r = 0 unless 1 - epsilon < r < 1 + epsilonHigh.
 * 4. `tau` t: A = A - t * stop(d).
 * 5. CISPO (MiniMax 2025, arXiv:2506.13585): -stop(clip(r, 1 - epsilon, 1 + epsilonHigh)) * A * l.
 *    PPO (Schulman et al. 2017, arXiv:1707.06347): -min(r * A, clip(r) * A), without a gradient when the clip, the
 *    cap or the mask binds.
 * 6. `truncation` C: multiply by stop(min(rho, C)).
 */
export function datumLoss(decisions: readonly LossDecision[], config: LossConfig): DatumLoss {
  const count = decisions.length;
  const losses = new Float64Array(count);
  const gradient = new Float64Array(count);
  const clipped = new Array<boolean>(count).fill(false);
  if (config.type === 'cross_entropy') {
    for (let index = 0; index < count; index++) losses[index] = -(decisions[index] as LossDecision).logprob;
    return { losses, gradient: gradient.fill(-1), clipped };
  }
  const { logRatios, ratios, own, shared } = importanceRatios(decisions, config);
  /** The part of the derivative that is the same for every l of the datum, from the shared part of the ratios. */
  let common = 0;
  for (let index = 0; index < count; index++) {
    const { logprob, sampledLogprob, advantage } = decisions[index] as LossDecision;
    const ratio = ratios[index] as number;
    const shifted = advantage - config.tau * (logRatios[index] as number);
    const bounded = boundedRatio(ratio, config);
    const token =
      config.type === 'cispo' ? cispo(logprob, bounded, shifted, config) : ppo(bounded, shifted, config);
    const factor = truncationOf(logprob, sampledLogprob, ratio, config);
    losses[index] = token.loss * factor.value;
    gradient[index] = (token.direct + token.perRatio * (own[index] as number)) * factor.value;
    if (shared) common += token.perRatio * (shared[index] as number) * factor.value;
    clipped[index] = token.clipped || factor.bound;
  }
  if (shared)
    for (let index = 0; index < count; index++) gradient[index] = (gradient[index] as number) + common;
  return { losses, gradient, clipped };
}

interface ImportanceRatios {
  /** d of each decision. */
  logRatios: Float64Array;
  /** r of each decision. */
  ratios: Float64Array;
  /** dr_i/dl_i without the part in `shared`. */
  own: Float64Array;
  /** dr_i/dl_j for every j of the datum, including i; null when a ratio depends only on its own l. */
  shared: Float64Array | null;
}

/**
 * The importance ratios of a datum's n decisions with d = l - l0 and m = mean(d), by the level of the config:
 * `token` exp(d); `sequence` exp(m), as in GSPO (Zheng et al. 2025, arXiv:2507.18071); `average` (exp(d) + exp(m)) / 2;
 * `geometric_average` exp((d + m) / 2). When l0 is missing it is stop(l): d is 0, and its derivative by l is 1.
 */
function importanceRatios(
  decisions: readonly LossDecision[],
  { importanceLevel: level, precalculateLogprobs }: PolicyLossConfig,
): ImportanceRatios {
  const count = decisions.length;
  const logRatios = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    const { logprob, sampledLogprob } = decisions[index] as LossDecision;
    if (sampledLogprob === null || precalculateLogprobs) continue;
    logRatios[index] = Math.min(logprob - sampledLogprob, maxLogRatio);
  }
  if (level === 'token') {
    const ratios = logRatios.map(Math.exp);
    return { logRatios, ratios, own: ratios, shared: null };
  }
  const mean = sumOf(logRatios) / count;
  const sequence = Math.exp(mean);
  switch (level) {
    case 'sequence': {
      const shared = logRatios.map(() => sequence / count);
      return { logRatios, ratios: logRatios.map(() => sequence), own: new Float64Array(count), shared };
    }
    case 'average': {
      const half = logRatios.map((value) => Math.exp(value) / 2);
      const shared = logRatios.map(() => sequence / (2 * count));
      return { logRatios, ratios: half.map((value) => value + sequence / 2), own: half, shared };
    }
    case 'geometric_average': {
      const ratios = logRatios.map((value) => Math.exp((value + mean) / 2));
      const own = ratios.map((value) => value / 2);
      return { logRatios, ratios, own, shared: ratios.map((value) => value / (2 * count)) };
    }
  }
}

interface BoundedRatio {
  value: number;
  /** Whether the cap or the mask replaced the ratio by a constant. */
  constant: boolean;
}

function boundedRatio(
  ratio: number,
  { maxRatio, maskRatio, epsilon, epsilonHigh }: PolicyLossConfig,
): BoundedRatio {
  const capped = maxRatio !== null && ratio > maxRatio;
  const value = capped ? maxRatio : ratio;
  const masked = maskRatio && !(value > 1 - epsilon && value < 1 + epsilonHigh);
  return masked ? { value: 0, constant: true } : { value, constant: capped };
}

function clip(ratio: number, { epsilon, epsilonHigh }: PolicyLossConfig): number {
  return Math.min(Math.max(ratio, 1 - epsilon), 1 + epsilonHigh);
}

/** The loss of one decision, and its derivatives by l and by the ratio. */
interface TokenLoss {
  loss: number;
  /** Its derivative by l at a constant ratio. */
  direct: number;
  /** Its derivative by the ratio. */
  perRatio: number;
  clipped: boolean;
}

function cispo(logprob: number, ratio: BoundedRatio, advantage: number, config: PolicyLossConfig): TokenLoss {
  const clippedRatio = clip(ratio.value, config);
  const direct = -clippedRatio * advantage;
  return {
    loss: direct * logprob,
    direct,
    perRatio: 0,
    clipped: ratio.constant || clippedRatio !== ratio.value,
  };
}

function ppo(ratio: BoundedRatio, advantage: number, config: PolicyLossConfig): TokenLoss {
  const free = ratio.value * advantage;
  const bounded = clip(ratio.value, config) * advantage;
  const clipped = ratio.constant || bounded < free;
  return { loss: -Math.min(free, bounded), direct: 0, perRatio: clipped ? 0 : -advantage, clipped };
}

/** The factor of `truncation`, and whether it is less than rho. */
function truncationOf(
  logprob: number,
  sampledLogprob: number | null,
  ratio: number,
  { truncation, precalculateLogprobs }: PolicyLossConfig,
): { value: number; bound: boolean } {
  if (truncation === null) return { value: 1, bound: false };
  const rho = precalculateLogprobs ? Math.exp(logprob - (sampledLogprob ?? logprob)) : ratio;
  return { value: Math.min(rho, truncation), bound: rho > truncation };
}
