import type { ConstraintState, TokenSet } from '../../../language/grammars.ts';
import type { Constraint } from '../../../language/index.ts';
import type { Datum, Span } from '../../../learning/index.ts';
import { EngineError } from '../../engine.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { Distribution, LogitRows } from '../sampling/distribution.ts';
import type { ReplyState } from '../sampling/logit-adjustments.ts';
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
   * The distribution under the span's sampling parameters, for one row of logits. Its support always contains the
   * token. Throws an `EngineError` when the parameters rule the token out or a logits processor fails.
   */
  distribution(rows: LogitRows, row: number): Distribution;
  /** Whether the distribution is the softmax of its support's logits divided by the span's temperature. */
  isSoftmax: boolean;
  /** Its support then, ascending; otherwise null. Do not change the array. Throws like `distribution`. */
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
        `A span of ${span.length} tokens at ${span.start} exceeds its sequence of ${datum.tokens.length}.`,
      );
    const sampling = codec.prepareSampling(span.sampling);
    const source = { tokens: datum.tokens, span, sampling };
    const decide = (index: number, legal: TokenSet | null) => {
      if (span.logprobs[index] !== 0) decisions.push(new SpanDecision(source, index, legal?.ids ?? null));
    };
    const compiled = span.constraint && (await codec.compiler.compile(span.constraint));
    if (compiled) followConstraint(datum, span, compiled.start(), decide);
    else for (let index = 0; index < span.length; index++) decide(index, null);
  }
  return { tokens: datum.tokens.slice(0, (decisions.at(-1)?.position ?? -1) + 1), decisions };
}

interface SpanSource {
  tokens: readonly number[];
  span: Span<Constraint>;
  sampling: ReplySampling;
}

/** A decision among the tokens that its span's constraint and sampling parameters allow. */
class SpanDecision implements Decision {
  readonly token: number;
  readonly #source: SpanSource;
  readonly #index: number;
  readonly #allowed: Int32Array | null;

  /** `index`: in the span. `allowed`: by the constraint. */
  constructor(source: SpanSource, index: number, allowed: Int32Array | null) {
    this.#source = source;
    this.#index = index;
    this.#allowed = allowed;
    this.token = source.tokens[this.position + 1] as number;
  }

  get span(): Span<Constraint> {
    return this.#source.span;
  }

  get position(): number {
    return this.span.start + this.#index - 1;
  }

  get logprob(): number | null {
    return this.span.logprobs[this.#index] ?? null;
  }

  get isSoftmax(): boolean {
    return this.#source.sampling.isSoftmax;
  }

  distribution(rows: LogitRows, row: number): Distribution {
    const distribution = this.#source.sampling.distribution(rows, row, this.#state);
    if (distribution.support.includes(this.token)) return distribution;
    throw this.#outside();
  }

  softmaxSupport(): Int32Array | null {
    const support = this.#source.sampling.softmaxSupport(this.#state);
    if (support?.includes(this.token) === false) throw this.#outside();
    return support;
  }

  get #state(): ReplyState {
    const { tokens, span } = this.#source;
    return { tokens, start: span.start, end: this.position + 1, allowed: this.#allowed, keep: this.token };
  }

  #outside(): EngineError {
    const reason = `(id ${this.token}) is not allowed by its sampling parameters`;
    return refused('outside_sampling', this.span, this.#index, reason);
  }
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
}

function refused(code: string, span: Span<Constraint>, index: number, reason: string): EngineError {
  return new EngineError(
    code,
    `Token ${index} of the reply at ${span.start} ${reason}. Send choices back unchanged.`,
  );
}
