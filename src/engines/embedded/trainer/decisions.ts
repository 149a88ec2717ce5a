import type { Constraint } from '../../../language/grammar/constraint.ts';
import type { ConstraintState } from '../../../language/grammar/constraint-state.ts';
import type { TokenSet } from '../../../language/grammar/token-set.ts';
import type { Datum, Span } from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { Distribution, LogitRows } from '../sampling/distribution.ts';

/** One token that the policy chose among alternatives. Only decisions are trained. */
export interface Decision {
  /** Index in the sequence of the token before it, whose logits predict it. */
  position: number;
  token: number;
  /** Its log-probability when it was sampled; null when not known. */
  logprob: number | null;
  span: Span<Constraint>;
  /**
   * The distribution under the span's sampling parameters, for one row of logits. Its support always contains the
   * token. Throws an `EngineError` when the parameters rule the token out or a logits processor fails.
   */
  distribution(rows: LogitRows, row: number): Distribution;
  /**
   * The support, ascending, if the distribution is the softmax of its logits divided by the span's temperature; null if
   * it is anything else. Do not change the array. Throws like `distribution`.
   */
  softmaxSupport(): Int32Array | null;
}

/** A sequence, cut after the token that precedes its last decision: later tokens predict no decision. */
export interface TrainingSequence {
  tokens: number[];
  decisions: Decision[];
}

/** What finding decisions needs of a base model's text. */
export type DecisionCodec = Pick<ConversationCodec, 'compiler' | 'prepareSampling'>;

/**
 * Finds the decisions of a datum by following its constraints along its tokens, as sampling did. A token that was
 * sampled with log-probability 0 was certain, so it is not a decision.
 */
export async function findDecisions(
  datum: Datum<Constraint>,
  codec: DecisionCodec,
): Promise<TrainingSequence> {
  const decisions: Decision[] = [];
  for (const span of datum.spans) {
    if (span.start < 1 || span.start + span.length > datum.tokens.length)
      throw new EngineError(
        'bad_datum',
        `a span of ${span.length} tokens at ${span.start} exceeds its sequence of ${datum.tokens.length}`,
      );
    const sampling = codec.prepareSampling(span.sampling);
    const decide = (index: number, legal: TokenSet | null) => {
      if (span.logprobs[index] === 0) return;
      const end = span.start + index;
      const token = datum.tokens[end] as number;
      const stateNow = () => {
        return { tokens: datum.tokens, start: span.start, end, allowed: legal?.ids ?? null, keep: token };
      };
      const outside = () =>
        refused('outside_sampling', span, index, `(id ${token}) is not allowed by its sampling parameters`);
      decisions.push({
        position: end - 1,
        token,
        logprob: span.logprobs[index] ?? null,
        span,
        distribution(rows, row) {
          const distribution = sampling.distribution(rows, row, stateNow());
          if (distribution.support.includes(token)) return distribution;
          throw outside();
        },
        softmaxSupport() {
          const support = sampling.softmaxSupport(stateNow());
          if (support?.includes(token) === false) throw outside();
          return support;
        },
      });
    };
    const compiled = span.constraint && (await codec.compiler.compile(span.constraint));
    if (compiled) followConstraint(datum, span, compiled.start(), decide);
    else for (let index = 0; index < span.length; index++) decide(index, null);
  }
  return { tokens: datum.tokens.slice(0, (decisions.at(-1)?.position ?? -1) + 1), decisions };
}

/** Calls `decide` for each token of a span that its constraint did not force, with the tokens that it allowed. */
function followConstraint(
  { tokens }: Datum<Constraint>,
  span: Span<Constraint>,
  state: ConstraintState,
  decide: (index: number, legal: TokenSet) => void,
): void {
  const outside = (index: number) =>
    refused('outside_constraint', span, index, 'is not allowed by its constraint');
  try {
    let index = 0;
    while (index < span.length && !state.ended) {
      const forced = state.takeForced();
      for (const token of forced.slice(0, span.length - index)) {
        if (tokens[span.start + index] !== token) throw outside(index);
        index++;
      }
      if (forced.length > 0) continue;
      const legal = state.legal();
      const token = tokens[span.start + index] as number;
      if (!legal.has(token)) throw outside(index);
      decide(index, legal);
      state.accept(token);
      index++;
    }
    if (index < span.length) throw outside(index);
  } finally {
    state.dispose();
  }
}

function refused(code: string, span: Span<Constraint>, index: number, reason: string): EngineError {
  return new EngineError(
    code,
    `token ${index} of the reply at ${span.start} ${reason}; send choices back unchanged`,
  );
}
