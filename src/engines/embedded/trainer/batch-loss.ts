import { datumLoss, type LossConfig, OffPolicyDiagnostics } from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import {
  type Distribution,
  entropyOf,
  type LogitRows,
  logprobAt,
  rowLength,
} from '../sampling/distribution.ts';
import type { MicroBatch } from './micro-batches.ts';

/** Sums the loss of a batch and computes its gradient at the logits, one micro-batch at a time. */
export class BatchLoss {
  readonly #config: LossConfig;
  readonly #advantageShifts: Float64Array | null;
  readonly #diagnostics = new OffPolicyDiagnostics();
  #decisions = 0;
  #loss = 0;
  #policyLoss = 0;
  #entropy = 0;

  /** `advantageShifts`: those of the KL penalty, in the order in which the decisions are added; null without one. */
  constructor(config: LossConfig, advantageShifts: Float64Array | null = null) {
    this.#config = config;
    this.#advantageShifts = advantageShifts;
  }

  /**
   * Takes logits and each datum's decisions with their rows; returns dLoss/dlogits [rows, vocabulary]. With a the
   * adjusted logits, p = softmax(a / T) over the support and g = dLoss/dl of the token,
   * dLoss/da_j = (g * ([j = token] - p_j)) / T, and for the entropy bonus -c * H it is c * p_j * (log p_j + H) / T.
   * Both are multiplied by the decision's weight and by da_j/dz_j.
   */
  add(datums: MicroBatch['decisions'], rows: LogitRows): Float32Array {
    const gradient = new Float32Array(rows.logits.length);
    for (const decisions of datums) this.#addDatum(decisions, rows, gradient);
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

  #addDatum(decisions: MicroBatch['decisions'][number], rows: LogitRows, gradient: Float32Array): void {
    const bonus = this.#config.type === 'cross_entropy' ? 0 : this.#config.entropyCoefficient;
    const distributions = decisions.map(({ decision, row }) => decision.distribution(rows, row));
    const terms = decisions.map(({ decision }, index) => {
      const distribution = distributions[index] as (typeof distributions)[number];
      return {
        logprob: logprobOf(distribution, decision.token),
        sampledLogprob: decision.logprob,
        advantage: decision.span.advantage + (this.#advantageShifts?.[this.#decisions + index] ?? 0),
      };
    });
    const { losses, gradient: slopes, clipped } = datumLoss(terms, this.#config);
    for (let at = 0; at < decisions.length; at++) {
      const { decision, row } = decisions[at] as (typeof decisions)[number];
      const distribution = distributions[at] as (typeof distributions)[number];
      const { token, span } = decision;
      const { support, positions, values, likelihoods, slopes: logitSlopes } = distribution;
      const [loss, slope] = [losses[at] as number, slopes[at] as number];
      const offset = row * rowLength(rows);
      const entropy = entropyOf(distribution);
      const temperature = span.sampling.temperature === 0 ? 1 : span.sampling.temperature;
      const scale = span.weight / temperature;
      const perLikelihood = scale / distribution.total;
      const shift = distribution.shift - entropy;
      for (let index = 0; index < support.length; index++) {
        const from = distribution.offset + (positions[index] as number);
        const relative = bonus === 0 ? 0 : bonus * ((values[from] as number) - shift);
        gradient[offset + (support[index] as number)] =
          perLikelihood * (likelihoods[from] as number) * (relative - slope);
      }
      gradient[offset + token] = (gradient[offset + token] as number) + scale * slope;
      if (logitSlopes)
        for (let index = 0; index < support.length; index++) {
          const target = offset + (support[index] as number);
          gradient[target] = (gradient[target] as number) * (logitSlopes[index] as number);
        }
      this.#diagnostics.add(
        (terms[at] as (typeof terms)[number]).logprob,
        decision.logprob,
        clipped[at] === true,
      );
      this.#policyLoss += span.weight * loss;
      this.#loss += span.weight * (loss - bonus * entropy);
      this.#entropy += entropy;
    }
    this.#decisions += decisions.length;
  }
}

/** The log-probability of a token of the support. */
export function logprobOf(distribution: Distribution, token: number): number {
  const index = distribution.support.indexOf(token);
  const logprob = index < 0 ? Number.NaN : logprobAt(distribution, index);
  if (!Number.isFinite(logprob))
    throw new EngineError(
      'loss_not_finite',
      `the log-probability of token ${token} is ${logprob}; lower the learning rate`,
    );
  return logprob;
}
