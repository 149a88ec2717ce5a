import type { Constraint } from '../../language/index.ts';
import {
  type Datum,
  datumLoss,
  klPenaltyShifts,
  OffPolicyDiagnostics,
  type Span,
} from '../../learning/index.ts';
import type { TrainingBatch } from '../engine.ts';
import { EngineError } from '../engine.ts';
import type { TokenResults } from '../token-results.ts';
import { refuseSampling, unsupported } from './refusals.ts';
import type { TinkerDatum } from './tinker-protobuf.ts';

/** How the server adds the losses of a step: `mean` over each sequence's weighted tokens and over the sequences. */
export type Reduction = 'mean' | 'sum';

interface Decision {
  /** Index of its target, which is the index of the token before it. */
  position: number;
  logprob: number | null;
  span: Span<Constraint>;
}

interface StepSequence {
  datum: TinkerDatum;
  decisions: Decision[];
}

/** The batch as the server's sequences, with the tokens that are trained: those that were sampled and not certain. */
export function sequencesOf(
  { datums, loss }: Pick<TrainingBatch, 'datums' | 'loss'>,
  { vocabularySize, contextLength }: { vocabularySize: number; contextLength: number },
): StepSequence[] {
  if (loss.type !== 'cross_entropy' && loss.entropyCoefficient !== 0)
    throw unsupported('entropy_coefficient', 'the server does not tell the entropy; leave it out');
  const sequences = datums.map((datum) => sequenceOf(datum)).filter(({ decisions }) => decisions.length > 0);
  for (const { datum } of sequences) {
    // A token outside the vocabulary would make the adapter's weights NaN.
    const wrong = [...datum.tokens, ...datum.targets].find(
      (token) => !Number.isInteger(token) || token < 0 || token >= vocabularySize,
    );
    if (wrong !== undefined)
      throw new EngineError('bad_datum', `Token ${wrong} is outside the vocabulary of ${vocabularySize}.`);
    if (datum.tokens.length >= contextLength)
      throw new EngineError(
        'too_long',
        `A sequence of ${datum.tokens.length + 1} tokens exceeds the context of ${contextLength}.`,
      );
  }
  if (sequences.length > 0) return sequences;
  throw new EngineError('nothing_to_train', 'No token of the batch was a decision.');
}

function sequenceOf({ tokens, spans }: Datum<Constraint>): StepSequence {
  const decisions: Decision[] = [];
  for (const span of spans) {
    refuseSampling(span.sampling, span.constraint !== null);
    if (span.start < 1 || span.start + span.length > tokens.length)
      throw new EngineError(
        'bad_datum',
        `A span of ${span.length} tokens at ${span.start} exceeds its sequence of ${tokens.length}.`,
      );
    for (let index = 0; index < span.length; index++)
      if (span.logprobs[index] !== 0)
        decisions.push({
          position: span.start + index - 1,
          logprob: span.logprobs[index] ?? null,
          span,
        });
  }
  const length = (decisions.at(-1)?.position ?? -1) + 1;
  return {
    decisions,
    datum: { tokens: tokens.slice(0, length), targets: tokens.slice(1, length + 1), inputs: null },
  };
}

/**
 * The datums that give the server exactly the gradient of our loss, and the step's metrics. The server's loss
 * `importance_sampling` is -exp(l - logprobs) * advantages: with `logprobs` = l and `advantages` = -w dL/dl, its
 * derivative by l is w dL/dl, whatever L is, as long as it depends on the log-probabilities of taken tokens only.
 *
 * `logprobs`: of each sequence's targets under the weights in training; `reference`: the same under those that the KL
 * penalty compares with, null without one.
 */
export function lossOf(
  sequences: readonly StepSequence[],
  logprobs: readonly Float32Array[],
  {
    loss,
    reference,
    reduction,
    tokens,
  }: {
    loss: TrainingBatch['loss'];
    reference: readonly Float32Array[] | null;
    reduction: Reduction;
    /** Gets the log-probability of each decision, and whether its loss was clipped. */
    tokens?: TokenResults | undefined;
  },
): { data: TinkerDatum[]; metrics: Record<string, number> } {
  const diagnostics = new OffPolicyDiagnostics();
  const penalty = penaltyOf(sequences, logprobs, reference, loss);
  let total = 0;
  let count = 0;
  const data = sequences.map(({ datum, decisions }, row) => {
    const current = logprobs[row] as Float32Array;
    const terms = decisions.map(({ position, logprob, span }, index) => ({
      logprob: finite(current[position], datum.targets[position]),
      sampledLogprob: logprob,
      advantage: span.advantage + (penalty?.shifts[count + index] ?? 0),
    }));
    const { losses, gradient, clipped } = datumLoss(terms, loss);
    const size = datum.tokens.length;
    const inputs = {
      weights: new Float32Array(size),
      logprobs: current,
      advantages: new Float32Array(size),
    };
    const factor = reduction === 'mean' ? decisions.length * sequences.length : 1;
    for (const [index, decision] of decisions.entries()) {
      const { position, logprob, span } = decision;
      inputs.weights[position] = 1;
      inputs.advantages[position] = -(gradient[index] as number) * span.weight * factor;
      total += (losses[index] as number) * span.weight;
      const { logprob: now } = terms[index] as { logprob: number };
      diagnostics.add(now, logprob, clipped[index] === true);
      tokens?.set(decision, now, clipped[index] === true);
    }
    count += decisions.length;
    return { ...datum, inputs };
  });
  const { clippedFraction, kl, maxLogprobDifference } = diagnostics.summary();
  const metrics = {
    loss: total,
    policy_loss: total,
    kl_div: kl,
    clipped_fraction: clippedFraction,
    logprob_difference_max: maxLogprobDifference,
    num_decisions: count,
    ...(penalty ? { kl_policy_ref: penalty.mean } : {}),
  };
  return { data, metrics };
}

function penaltyOf(
  sequences: readonly StepSequence[],
  logprobs: readonly Float32Array[],
  reference: readonly Float32Array[] | null,
  loss: TrainingBatch['loss'],
) {
  if (loss.type === 'cross_entropy' || loss.klPenalty === null || reference === null) return null;
  const terms = sequences.flatMap(({ datum, decisions }, row) =>
    decisions.map(({ position, logprob }) => ({
      sampled: logprob,
      current: logprobs[row]?.[position] ?? null,
      reference: finite(reference[row]?.[position], datum.targets[position]),
    })),
  );
  return klPenaltyShifts(terms, loss.klPenalty);
}

function finite(logprob: number | undefined, token: number | undefined): number {
  if (logprob !== undefined && Number.isFinite(logprob)) return logprob;
  throw new EngineError(
    'loss_not_finite',
    `The log-probability of token ${token} is ${logprob}. Lower the learning rate.`,
  );
}
