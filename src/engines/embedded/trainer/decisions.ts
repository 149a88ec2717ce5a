import type { Constraint } from '../../../language/constraint/constraint.ts';
import type { Datum, Span } from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { Distribution } from '../sampling/distribution.ts';

import type { Place } from '../sampling/logit-adjustments.ts';
import type { ReplySampling } from '../sampling/reply-sampling.ts';

/** One token that the policy chose among alternatives. Only decisions are trained. */
export interface Decision {
  /** Index in the sequence of the token before it, whose logits predict it. */
  position: number;
  token: number;
  /** Its log-probability when it was sampled; null when not known. */
  logprob: number | null;
  span: Span<Constraint>;
  /**
   * The distribution under the span's sampling parameters, for the logits at `offset`. Its support always contains the
   * token. Throws an `EngineError` when the parameters rule the token out or a logits processor fails.
   */
  distribution(logits: Float32Array, offset: number): Distribution;
}

/** A sequence, cut after the token that precedes its last decision: later tokens predict no decision. */
export interface TrainingSequence {
  tokens: number[];
  decisions: Decision[];
}

/** A span whose decisions are being found. */
interface Reading {
  datum: Datum<Constraint>;
  span: Span<Constraint>;
  sampling: ReplySampling;
  decisions: Decision[];
}

/**
 * Finds the decisions of a datum by following its constraints along its tokens, as sampling did. A token that was
 * sampled with log-probability 0 was certain, so it is not a decision.
 */
export async function findDecisions(
  datum: Datum<Constraint>,
  codec: ConversationCodec,
): Promise<TrainingSequence> {
  const decisions: Decision[] = [];
  for (const span of datum.spans) {
    if (span.start < 1 || span.start + span.length > datum.tokens.length)
      throw new EngineError(
        'bad_datum',
        `a span from ${span.start} of ${span.length} tokens does not lie in a sequence of ${datum.tokens.length}`,
      );
    const reading = { datum, span, sampling: codec.prepareSampling(span.sampling), decisions };
    if (span.constraint) await followConstraint(reading, span.constraint, codec);
    else for (let index = 0; index < span.length; index++) decide(reading, index, null);
  }
  return { tokens: datum.tokens.slice(0, (decisions.at(-1)?.position ?? -1) + 1), decisions };
}

async function followConstraint(
  reading: Reading,
  constraint: Constraint,
  codec: ConversationCodec,
): Promise<void> {
  const { datum, span } = reading;
  const state = (await codec.compile(constraint)).start();
  try {
    let index = 0;
    while (index < span.length && !state.ended) {
      const forced = state.takeForced();
      for (const token of forced.slice(0, span.length - index)) {
        if (datum.tokens[span.start + index] !== token) throw left(span, index);
        index++;
      }
      if (forced.length > 0) continue;
      const allowed = state.legal();
      const token = datum.tokens[span.start + index] as number;
      if (!allowed.includes(token)) throw left(span, index);
      decide(reading, index, allowed);
      state.accept(token);
      index++;
    }
    if (index < span.length) throw left(span, index);
  } finally {
    state.dispose();
  }
}

function decide(
  { datum, span, sampling, decisions }: Reading,
  index: number,
  allowed: Place['allowed'],
): void {
  if (span.logprobs[index] === 0) return;
  const end = span.start + index;
  const token = datum.tokens[end] as number;
  const place: Place = { tokens: datum.tokens, start: span.start, end, allowed };
  decisions.push({
    position: end - 1,
    token,
    logprob: span.logprobs[index] ?? null,
    span,
    distribution(logits, offset) {
      const found = sampling.distribution(logits, offset, place, token);
      if (!found.support.includes(token))
        throw new EngineError(
          'outside_sampling',
          `token ${index} of a reply at ${span.start} (id ${token}) is not one its sampling parameters allow; send choices back as they came`,
        );
      return found;
    },
  });
}

function left(span: Span<Constraint>, index: number): EngineError {
  return new EngineError(
    'outside_constraint',
    `token ${index} of a reply at ${span.start} is not one its constraint allows; send choices back as they came`,
  );
}
