import type { LossConfig } from './datum.ts';
import type { PolicyLossConfig } from './resolve-config.ts';

export interface TokenLossInput {
  /** l: log-probability of the token under the weights being trained (natural logarithm). */
  logprob: number;
  /** l0: log-probability when it was sampled. null: not known; l stands for it, with its gradient stopped. */
  sampledLogprob: number | null;
  advantage: number;
  config: LossConfig;
}

export interface TokenLoss {
  loss: number;
  /** d loss / d l, with the gradients that the formulas stop left out. */
  gradient: number;
  /** Whether the cap, the mask or the clip changed what the token contributes. */
  clipped: boolean;
}

/** A log-ratio beyond this overflows float32, which an engine computes in. No policy gets there by training. */
const largestLogRatio = 80;

/**
 * The loss of one token, before its weight and without the entropy bonus, and the derivative of that loss by the
 * token's log-probability: all that an engine needs to train any of these losses with one graph.
 *
 * Cross-entropy: -l. Otherwise with d = l - l0, r = exp(d), A the advantage and sg() a stopped gradient:
 * 1. `maxRatio` c: r = min(r, c).
 * 2. `maskRatio`: r = 0 unless 1 - epsilon < r < 1 + epsilonHigh.
 * 3. `tau` t: A = A - t * sg(d).
 * 4. CISPO (MiniMax 2025, arXiv:2506.13585): -sg(clip(r, 1 - epsilon, 1 + epsilonHigh)) * A * l, with gradient
 *    -clip(r) * A. PPO (Schulman et al. 2017, arXiv:1707.06347): -min(r * A, clip(r) * A), with gradient -r * A,
 *    or 0 where the clip, the cap or the mask binds.
 */
export function tokenLoss({ logprob, sampledLogprob, advantage, config }: TokenLossInput): TokenLoss {
  if (config.type === 'cross_entropy') return { loss: -logprob, gradient: -1, clipped: false };
  const logRatio = sampledLogprob === null ? 0 : Math.min(logprob - sampledLogprob, largestLogRatio);
  const ratio = boundedRatio(Math.exp(logRatio), config);
  const tilted = advantage - config.tau * logRatio;
  return config.type === 'cispo' ? cispo(logprob, ratio, tilted, config) : ppo(ratio, tilted, config);
}

interface BoundedRatio {
  value: number;
  /** The cap or the mask put a constant in its place. */
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

function cispo(logprob: number, ratio: BoundedRatio, advantage: number, config: PolicyLossConfig): TokenLoss {
  const clippedRatio = clip(ratio.value, config);
  const gradient = -clippedRatio * advantage;
  return {
    loss: gradient * logprob,
    gradient,
    clipped: ratio.constant || clippedRatio !== ratio.value,
  };
}

function ppo(ratio: BoundedRatio, advantage: number, config: PolicyLossConfig): TokenLoss {
  const free = ratio.value * advantage;
  const bounded = clip(ratio.value, config) * advantage;
  const clipped = ratio.constant || bounded < free;
  return { loss: -Math.min(free, bounded), gradient: clipped ? 0 : -free, clipped };
}
