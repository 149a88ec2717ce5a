import { datumLoss, type LossConfig, OffPolicyDiagnostics } from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import type { TokenResults } from '../../token-results.ts';
import {
  type Distribution,
  entropyOf,
  type LogitRows,
  logprobAt,
  rowLength,
} from '../sampling/distribution.ts';
import type { Decision } from './decisions.ts';
import type { MicroBatch } from './micro-batches.ts';

/** Sums the loss of a batch and computes its gradient at the logits, one micro-batch at a time. */
export class BatchLoss {
  readonly #config: LossConfig;
  readonly #advantageShifts: Float64Array | null;
  readonly #diagnostics = new OffPolicyDiagnostics();
  readonly #tokens: TokenResults | undefined;
  #decisions = 0;
  #loss = 0;
  #policyLoss = 0;
  #entropy = 0;

  /**
   * `advantageShifts`: those of the KL penalty, in the order in which the decisions are added; null without one.
   * `tokens` gets the log-probability of each decision, and whether its loss was clipped.
   */
  constructor(config: LossConfig, advantageShifts: Float64Array | null = null, tokens?: TokenResults) {
    this.#config = config;
    this.#advantageShifts = advantageShifts;
    this.#tokens = tokens;
  }

  /**
   * Takes logits and each datum's decisions with their rows; returns dLoss/dlogits [rows, vocabulary]. With a the
   * adjusted logits, p = softmax(a / T) over the support and g = dLoss/dl of the token,
   * dLoss/da_j = (g * ([j = token] - p_j)) / T, and for the entropy bonus -c * H it is c * p_j * (log p_j + H) / T.
   * Both are multiplied by the decision's weight and by da_j/dz_j.
   */
  add(datums: MicroBatch['decisions'], rows: LogitRows): Float32Array {
    const gradient = new Float32Array(rows.logits.length);
    for (const decisions of datums) this.#addLogits(decisions, rows, gradient);
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

  /**
   * Takes what a datum's decisions have under the weights being trained; returns the slopes of their losses. Use either
   * this or `add`.
   */
  addDatum(decisions: readonly Decision[], probabilities: readonly Probability[]): Slope[] {
    const bonus = this.#config.type === 'cross_entropy' ? 0 : this.#config.entropyCoefficient;
    const terms = decisions.map((decision, index) => ({
      logprob: (probabilities[index] as Probability).logprob,
      sampledLogprob: decision.logprob,
      advantage: decision.span.advantage + (this.#advantageShifts?.[this.#decisions + index] ?? 0),
    }));
    const { losses, gradient, clipped } = datumLoss(terms, this.#config);
    for (const [at, decision] of decisions.entries()) {
      const { logprob: sampled, span } = decision;
      const { logprob, entropy } = probabilities[at] as Probability;
      const loss = losses[at] as number;
      this.#diagnostics.add(logprob, sampled, clipped[at] === true);
      this.#tokens?.set(decision, logprob, clipped[at] === true);
      this.#policyLoss += span.weight * loss;
      this.#loss += span.weight * (loss - bonus * entropy);
      this.#entropy += entropy;
    }
    this.#decisions += decisions.length;
    return Array.from(gradient, (slope, at) => ({
      slope,
      bonus,
      weight: (decisions[at] as Decision).span.weight,
    }));
  }

  #addLogits(decisions: MicroBatch['decisions'][number], rows: LogitRows, gradient: Float32Array): void {
    const distributions = decisions.map(({ decision, row }) => decision.distribution(rows, row));
    const probabilities = decisions.map(({ decision }, at) =>
      probabilityOf(distributions[at] as Distribution, decision.token),
    );
    const slopes = this.addDatum(
      decisions.map(({ decision }) => decision),
      probabilities,
    );
    for (const [at, { decision, row }] of decisions.entries()) {
      const { entropy } = probabilities[at] as Probability;
      const options = { ...(slopes[at] as Slope), entropy };
      const offset = row * rowLength(rows);
      addLogitsGradient(decision, distributions[at] as Distribution, options, gradient, offset);
    }
  }
}

/** What the loss of a decision depends on. */
export interface Probability {
  /** Of the token, natural logarithm. */
  logprob: number;
  /** Of the distribution, in nats. */
  entropy: number;
}

/** How the loss depends on a decision: dLoss/dlogprob is weight * slope, dLoss/dentropy is -weight * bonus. */
export interface Slope {
  slope: number;
  bonus: number;
  weight: number;
}

export function probabilityOf(distribution: Distribution, token: number): Probability {
  return { logprob: logprobOf(distribution, token), entropy: entropyOf(distribution) };
}

/** Writes dLoss/dlogits of one decision, whose row of `gradient` begins at `offset` and is 0: see `BatchLoss.add`. */
export function addLogitsGradient(
  { token, span }: Decision,
  distribution: Distribution,
  { slope, bonus, weight, entropy }: Slope & { entropy: number },
  gradient: Float32Array,
  offset: number,
): void {
  const { support, positions, values, likelihoods, slopes: logitSlopes } = distribution;
  const temperature = span.sampling.temperature === 0 ? 1 : span.sampling.temperature;
  const scale = weight / temperature;
  const perLikelihood = scale / distribution.total;
  const shift = distribution.shift - entropy;
  for (let index = 0; index < support.length; index++) {
    const from = distribution.offset + (positions[index] as number);
    const relative = bonus === 0 ? 0 : bonus * ((values[from] as number) - shift);
    gradient[offset + (support[index] as number)] =
      perLikelihood * (likelihoods[from] as number) * (relative - slope);
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
    `the log-probability of token ${token} is ${logprob}; lower the learning rate`,
  );
}
