import type { Datum, Span } from '../../../learning/index.ts';
import type { Constraint } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import type { ConversationCodec } from '../conversation-codec.ts';

/** One token that the policy chose among others: what training acts on. */
export interface Decision {
  /** Index in the sequence of the token before it, whose output decides. */
  position: number;
  token: number;
  /** Tokens it was chosen from, ascending. */
  legal: Int32Array;
  /** Its log-probability when it was sampled. */
  logprob: number | null;
  span: Span<Constraint>;
}

/** A sequence cut after its last decision. */
export interface TrainingSequence {
  tokens: number[];
  decisions: Decision[];
}

/**
 * Finds the decisions of a datum by following its constraints along its tokens, as sampling did. A token sampled
 * with log-probability 0 was certain: it is none.
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
    if (span.constraint) await followConstraint(datum, span, span.constraint, codec, decisions);
    else
      for (let index = 0; index < span.length; index++)
        if (span.logprobs[index] !== 0) decisions.push(decisionAt(datum, span, index, codec.unconstrained));
  }
  return { tokens: datum.tokens.slice(0, (decisions.at(-1)?.position ?? -1) + 1), decisions };
}

async function followConstraint(
  datum: Datum<Constraint>,
  span: Span<Constraint>,
  constraint: Constraint,
  codec: ConversationCodec,
  decisions: Decision[],
): Promise<void> {
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
      const legal = state.legal();
      const token = datum.tokens[span.start + index] as number;
      if (!legal.includes(token)) throw left(span, index);
      if (span.logprobs[index] !== 0) decisions.push(decisionAt(datum, span, index, legal));
      state.accept(token);
      index++;
    }
    if (index < span.length) throw left(span, index);
  } finally {
    state.dispose();
  }
}

function decisionAt(
  datum: Datum<Constraint>,
  span: Span<Constraint>,
  index: number,
  legal: Int32Array,
): Decision {
  const at = span.start + index;
  return {
    position: at - 1,
    token: datum.tokens[at] as number,
    legal,
    logprob: span.logprobs[index] ?? null,
    span,
  };
}

function left(span: Span<Constraint>, index: number): EngineError {
  return new EngineError(
    'outside_constraint',
    `token ${index} of a reply at ${span.start} is not one its constraint allows; send choices back as they came`,
  );
}
