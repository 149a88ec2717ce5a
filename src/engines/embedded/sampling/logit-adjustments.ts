import { EngineError, type SamplingParameters } from '../../engine.ts';
import { type NamedProcessor, runProcessors } from '../extensions/logits-processors.ts';
import type { AdjustedLogits } from './distribution.ts';

/** The state of a reply before its next token. The reply's tokens are `tokens` from `start` to `end`. */
export interface Place {
  /** Prompt and reply; in training also what follows. */
  tokens: readonly number[];
  /** Index of the reply's first token. */
  start: number;
  end: number;
  /** Tokens that the reply's constraint allows next, ascending; null without a constraint. */
  allowed: Int32Array | null;
}

/** Applies the `SamplingParameters` that change logits before the temperature: processors, bias and penalties. */
export class LogitAdjustments {
  /** Whether no logit is changed. */
  readonly off: boolean;
  readonly #processors: readonly NamedProcessor[];
  readonly #bias: ReadonlyMap<number, number>;
  readonly #penalties: Pick<SamplingParameters, 'repetitionPenalty' | 'frequencyPenalty' | 'presencePenalty'>;
  readonly #vocabularySize: number;

  constructor(sampling: SamplingParameters, processors: readonly NamedProcessor[], vocabularySize: number) {
    this.#processors = processors;
    const bias = new Map<number, number>();
    for (const [token, added] of sampling.logitBias) bias.set(token, (bias.get(token) ?? 0) + added);
    this.#bias = bias;
    this.#penalties = sampling;
    this.#vocabularySize = vocabularySize;
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = sampling;
    this.off =
      processors.length === 0 &&
      bias.size === 0 &&
      repetitionPenalty === 1 &&
      frequencyPenalty === 0 &&
      presencePenalty === 0;
  }

  /** The adjusted logits at `offset` of the legal tokens. `keep` stays even if a processor bans it. */
  adjust(
    logits: Float32Array,
    offset: number,
    legal: Int32Array,
    place: Place,
    keep: number | undefined,
  ): AdjustedLogits {
    const { support, values } = this.#processed(logits, offset, legal, place, keep);
    if (this.#bias.size > 0)
      for (let index = 0; index < support.length; index++)
        values[index] = (values[index] as number) + (this.#bias.get(support[index] as number) ?? 0);
    const slopes = this.#penalizeRepetition(support, values, place);
    this.#penalizeReply(support, values, place);
    for (let index = 0; index < values.length; index++)
      if (!Number.isFinite(values[index]))
        throw new EngineError(
          'logits_not_finite',
          `the logit of token ${support[index]} becomes ${values[index]}; take milder penalties and biases`,
        );
    return { support, values, slopes };
  }

  #processed(
    logits: Float32Array,
    offset: number,
    legal: Int32Array,
    { tokens, start, end }: Place,
    keep: number | undefined,
  ): Omit<AdjustedLogits, 'slopes'> {
    if (this.#processors.length === 0) {
      const values = new Float64Array(legal.length);
      for (let index = 0; index < legal.length; index++)
        values[index] = logits[offset + (legal[index] as number)] as number;
      return { support: legal, values };
    }
    const raw = (token: number) => logits[offset + token] as number;
    const whole = new Float64Array(this.#vocabularySize).fill(Number.NEGATIVE_INFINITY);
    for (const token of legal) whole[token] = raw(token);
    const prompt = Object.freeze(tokens.slice(0, start));
    const reply = Object.freeze(tokens.slice(start, end));
    runProcessors(this.#processors, whole, legal, { prompt, reply });
    const banned = (token: number) => whole[token] === Number.NEGATIVE_INFINITY;
    if (keep !== undefined && legal.includes(keep) && banned(keep)) whole[keep] = raw(keep);
    const support = legal.filter((token) => !banned(token));
    return { support, values: Float64Array.from(support, (token) => whole[token] as number) };
  }

  /** Returns the slopes, or null when the penalty is off. */
  #penalizeRepetition(
    support: Int32Array,
    values: Float64Array,
    { tokens, end }: Place,
  ): Float64Array | null {
    const { repetitionPenalty } = this.#penalties;
    if (repetitionPenalty === 1) return null;
    const seen = new Uint8Array(this.#vocabularySize);
    for (let at = 0; at < end; at++) seen[tokens[at] as number] = 1;
    const slopes = new Float64Array(support.length).fill(1);
    for (let index = 0; index < support.length; index++) {
      if (seen[support[index] as number] === 0) continue;
      const value = values[index] as number;
      const slope = value > 0 ? 1 / repetitionPenalty : repetitionPenalty;
      values[index] = value > 0 ? value / repetitionPenalty : value * repetitionPenalty;
      slopes[index] = slope;
    }
    return slopes;
  }

  #penalizeReply(support: Int32Array, values: Float64Array, { tokens, start, end }: Place): void {
    const { frequencyPenalty, presencePenalty } = this.#penalties;
    if (frequencyPenalty === 0 && presencePenalty === 0) return;
    const counts = new Uint32Array(this.#vocabularySize);
    for (let at = start; at < end; at++) {
      const token = tokens[at] as number;
      counts[token] = (counts[token] as number) + 1;
    }
    for (let index = 0; index < support.length; index++) {
      const count = counts[support[index] as number] as number;
      if (count > 0) values[index] = (values[index] as number) - frequencyPenalty * count - presencePenalty;
    }
  }
}
