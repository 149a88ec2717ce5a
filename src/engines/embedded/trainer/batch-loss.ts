import { type LossConfig, OffPolicyDiagnostics, tokenLoss } from '../../../learning/index.ts';
import { EngineError } from '../../engine-error.ts';
import { distributionOf, entropyOf } from '../distribution.ts';
import type { MicroBatch } from './micro-batches.ts';

/** Sums the loss of a batch and tells its slope at the logits, micro-batch by micro-batch. */
export class BatchLoss {
  readonly #config: LossConfig;
  readonly #diagnostics = new OffPolicyDiagnostics();
  #decisions = 0;
  #loss = 0;
  #policyLoss = 0;
  #entropy = 0;

  constructor(config: LossConfig) {
    this.#config = config;
  }

  /**
   * Takes logits [rows, vocabulary] and the decisions among the rows; returns dLoss/dlogits of the same shape. With
   * p = softmax(z / T) over the support and g = dLoss/dl of the token, dLoss/dz_j = (g * ([j = token] - p_j)) / T,
   * and of the entropy bonus -c * H it is c * p_j * (log p_j + H) / T; both times the decision's weight.
   */
  add(decisions: MicroBatch['decisions'], logits: Float32Array, vocabularySize: number): Float32Array {
    const gradient = new Float32Array(logits.length);
    const bonus = this.#config.type === 'cross_entropy' ? 0 : this.#config.entropyCoefficient;
    for (const { decision, row } of decisions) {
      const { token, legal, logprob, span } = decision;
      const offset = row * vocabularySize;
      const distribution = distributionOf(logits, offset, legal, span.sampling, token);
      const { support, logprobs, probabilities } = distribution;
      const now = logprobs[support.indexOf(token)];
      if (now === undefined || !Number.isFinite(now))
        throw new EngineError(
          'loss_not_finite',
          `the log-probability of token ${token} is ${now}; lower the learning rate`,
        );
      const precalculated = this.#config.type !== 'cross_entropy' && this.#config.precalculateLogprobs;
      const {
        loss,
        gradient: slope,
        clipped,
      } = tokenLoss({
        logprob: now,
        sampledLogprob: precalculated ? now : logprob,
        advantage: span.advantage,
        config: this.#config,
      });
      const entropy = entropyOf(distribution);
      const temperature = span.sampling.temperature === 0 ? 1 : span.sampling.temperature;
      const scale = span.weight / temperature;
      for (let index = 0; index < support.length; index++) {
        const logp = logprobs[index] as number;
        const probability = probabilities[index] as number;
        gradient[offset + (support[index] as number)] =
          scale * (bonus * probability * (logp + entropy) - slope * probability);
      }
      gradient[offset + token] = (gradient[offset + token] as number) + scale * slope;
      this.#diagnostics.add(now, logprob, clipped);
      this.#decisions++;
      this.#policyLoss += span.weight * loss;
      this.#loss += span.weight * (loss - bonus * entropy);
      this.#entropy += entropy;
    }
    return gradient;
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
    };
  }
}
