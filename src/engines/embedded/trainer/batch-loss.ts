import {
  datumLoss,
  type KlPenaltyShifts,
  klPenaltyShifts,
  type LossConfig,
  OffPolicyDiagnostics,
} from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import type { TokenResults } from '../../token-results.ts';
import type { ProbabilitySlopes } from '../runner/head-runner.ts';
import { type Distribution, entropyOf, logprobAt } from '../sampling/distribution.ts';
import type { Decision } from './decisions.ts';

/** What the loss of decisions depends on: an element for each. */
export interface Probabilities {
  /** Log-probabilities of the tokens, natural logarithm. */
  logprobs: Float64Array;
  /** Entropies of the distributions, in nats. */
  entropies: Float64Array;
}

/**
 * What the KL penalty of a batch needs of its decisions, in the order in which they are added: the changes of their
 * advantages, or their log-probabilities under the reference of a penalty that is not centred.
 */
export type BatchPenalty = KlPenaltyShifts | { reference: readonly number[] };

/** Sums the loss of a batch, one micro-batch at a time. */
export class BatchLoss {
  readonly #config: LossConfig;
  readonly #penalty: BatchPenalty | null;
  readonly #diagnostics = new OffPolicyDiagnostics();
  readonly #tokens: TokenResults | undefined;
  #decisions = 0;
  #loss = 0;
  #policyLoss = 0;
  #entropy = 0;
  /** Sum of k over the decisions, where it is not known before. */
  #distance = 0;

  /**
   * `penalty`: the KL penalty; null without one. `tokens` gets the log-probability of each decision, and whether its
   * loss was clipped.
   */
  constructor(config: LossConfig, penalty: BatchPenalty | null, tokens?: TokenResults) {
    this.#config = config;
    this.#penalty = penalty;
    this.#tokens = tokens;
  }

  metrics(): Record<string, number> {
    const { clippedFraction, kl, maxLogprobDifference } = this.#diagnostics.summary();
    return {
      loss: this.#loss,
      policy_loss: this.#policyLoss,
      entropy: this.#decisions === 0 ? 0 : this.#entropy / this.#decisions,
      kl_div: kl,
      clipped_fraction: clippedFraction,
      logprob_difference_max: maxLogprobDifference,
      num_decisions: this.#decisions,
      ...(this.#penalty
        ? { kl_policy_ref: 'mean' in this.#penalty ? this.#penalty.mean : this.#distance / this.#decisions }
        : {}),
    };
  }

  /**
   * Takes what the decisions of datums, one datum after the other, have under the weights being trained; returns the slopes
   * of their losses.
   */
  add(datums: readonly (readonly Decision[])[], { logprobs, entropies }: Probabilities): ProbabilitySlopes {
    const slopes = {
      logprobs: new Float32Array(logprobs.length),
      entropies: new Float32Array(logprobs.length),
    };
    const bonus = this.#config.type === 'cross_entropy' ? 0 : this.#config.entropyCoefficient;
    let start = 0;
    for (const decisions of datums) {
      const shifts = this.#shiftsOf(decisions, logprobs.subarray(start));
      const terms = decisions.map(({ logprob, span }, index) => ({
        logprob: logprobs[start + index] as number,
        sampledLogprob: logprob,
        advantage: span.advantage + (shifts?.[index] ?? 0),
      }));
      const { losses, gradient, clipped } = datumLoss(terms, this.#config);
      for (const [index, decision] of decisions.entries()) {
        const at = start + index;
        const { logprob: sampled, span } = decision;
        const [logprob, entropy] = [logprobs[at] as number, entropies[at] as number];
        const isClipped = clipped[index] === true;
        this.#diagnostics.add(logprob, sampled, isClipped);
        this.#tokens?.set(decision, logprob, isClipped);
        this.#policyLoss += span.weight * (losses[index] as number);
        this.#loss += span.weight * ((losses[index] as number) - bonus * entropy);
        this.#entropy += entropy;
        slopes.logprobs[at] = span.weight * (gradient[index] as number);
        slopes.entropies[at] = -span.weight * bonus;
      }
      this.#decisions += decisions.length;
      start += decisions.length;
    }
    return slopes;
  }

  /** What the KL penalty adds to the advantages of the next decisions. */
  #shiftsOf(decisions: readonly Decision[], logprobs: Float64Array): Float64Array | null {
    if (this.#config.type === 'cross_entropy' || !this.#config.klPenalty || !this.#penalty) return null;
    const from = this.#decisions;
    if ('shifts' in this.#penalty) return this.#penalty.shifts.subarray(from, from + decisions.length);
    const { reference } = this.#penalty;
    const terms = decisions.map(({ logprob }, index) => ({
      sampled: logprob,
      current: logprobs[index] as number,
      reference: reference[from + index] as number,
    }));
    const { shifts, mean } = klPenaltyShifts(terms, this.#config.klPenalty);
    this.#distance += mean * decisions.length;
    return shifts;
  }
}

/**
 * Writes dLoss/dlogits of one decision, whose row of `gradient` begins at `offset` and is 0. With a the adjusted logits,
 * p = softmax(a / T) over the support, H its entropy, and s and h the slopes by log-probability and entropy, dLoss/da_j =
 * (s * ([j = token] - p_j) - h * p_j * (log p_j + H)) / T. It is multiplied by da_j/dz_j.
 */
export function addLogitsGradient(
  { token, span }: Decision,
  distribution: Distribution,
  { slope, entropySlope }: { slope: number; entropySlope: number },
  gradient: Float32Array,
  offset: number,
): void {
  const { support, positions, values, likelihoods, slopes: logitSlopes } = distribution;
  const scale = 1 / (span.sampling.temperature === 0 ? 1 : span.sampling.temperature);
  const perLikelihood = scale / distribution.total;
  const shift = entropySlope === 0 ? 0 : distribution.shift - entropyOf(distribution);
  for (let index = 0; index < support.length; index++) {
    const from = distribution.offset + (positions[index] as number);
    const relative = entropySlope === 0 ? 0 : entropySlope * ((values[from] as number) - shift);
    gradient[offset + (support[index] as number)] =
      -perLikelihood * (likelihoods[from] as number) * (relative + slope);
  }
  gradient[offset + token] = (gradient[offset + token] as number) + scale * slope;
  if (!logitSlopes) return;
  for (let index = 0; index < support.length; index++) {
    const target = offset + (support[index] as number);
    gradient[target] = (gradient[target] as number) * (logitSlopes[index] as number);
  }
}

/** The log-probability of a token of the support. */
export function logprobOf(distribution: Distribution, token: number): number {
  const index = distribution.support.indexOf(token);
  return finiteLogprob(token, index < 0 ? Number.NaN : logprobAt(distribution, index));
}

/** Returns the log-probability of a token; throws an `EngineError` when it is not finite. */
export function finiteLogprob(token: number, logprob: number): number {
  if (Number.isFinite(logprob)) return logprob;
  throw new EngineError(
    'loss_not_finite',
    `The log-probability of token ${token} is ${logprob}. Lower the learning rate.`,
  );
}
