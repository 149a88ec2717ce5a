import { EngineError, type SamplingParameters } from '../../engine.ts';
import { type NamedProcessor, runProcessors } from '../extensions/logits-processors.ts';
import { type AdjustedLogits, gatherLogits } from './distribution.ts';

/** The state of a reply before its next token. The reply's tokens are `tokens` from `start` to `end`. */
export interface ReplyState {
  /** Prompt and reply; in training also what follows. */
  tokens: readonly number[];
  /** Index of the reply's first token. */
  start: number;
  end: number;
  /** Tokens that the reply's constraint allows next, ascending; null without a constraint. */
  allowed: Int32Array | null;
  /** If it is legal, this token stays in the support whatever processors and cut-offs do. Default: none. */
  keep?: number;
}

/** Applies the `SamplingParameters` that change logits before the temperature: processors, bias and penalties. */
export class LogitAdjustments {
  /** Whether no logit is changed. */
  readonly isOff: boolean;
  readonly #processors: readonly NamedProcessor[];
  readonly #bias = new Map<number, number>();
  readonly #penalties: Pick<SamplingParameters, 'repetitionPenalty' | 'frequencyPenalty' | 'presencePenalty'>;
  readonly #vocabularySize: number;

  constructor(sampling: SamplingParameters, processors: readonly NamedProcessor[], vocabularySize: number) {
    this.#processors = processors;
    for (const [token, added] of sampling.logitBias)
      this.#bias.set(token, (this.#bias.get(token) ?? 0) + added);
    this.#penalties = sampling;
    this.#vocabularySize = vocabularySize;
    this.isOff =
      processors.length === 0 &&
      this.#bias.size === 0 &&
      sampling.repetitionPenalty === 1 &&
      sampling.frequencyPenalty === 0 &&
      sampling.presencePenalty === 0;
  }

  /** The adjusted logits at `offset` of the legal tokens. */
  adjust(logits: Float32Array, offset: number, legal: Int32Array, state: ReplyState): AdjustedLogits {
    const gathered = gatherLogits(logits, offset, legal);
    if (this.isOff) return gathered;
    const adjusted = this.#processors.length === 0 ? gathered : this.#process(gathered, state);
    const { support, values } = adjusted;
    if (this.#bias.size > 0)
      for (let index = 0; index < support.length; index++)
        values[index] = (values[index] as number) + (this.#bias.get(support[index] as number) ?? 0);
    adjusted.slopes = this.#penalizeRepetition(adjusted, state);
    this.#penalizeReply(adjusted, state);
    for (let index = 0; index < values.length; index++)
      if (!Number.isFinite(values[index]))
        throw new EngineError(
          'logits_not_finite',
          `The logit of token ${support[index]} becomes ${values[index]}. Use smaller penalties and biases.`,
        );
    return adjusted;
  }

  #process(
    { support: legal, values: raw }: AdjustedLogits,
    { tokens, start, end, keep }: ReplyState,
  ): AdjustedLogits {
    const logits = new Float64Array(this.#vocabularySize).fill(Number.NEGATIVE_INFINITY);
    for (const [index, token] of legal.entries()) logits[token] = raw[index] as number;
    const prompt = Object.freeze(tokens.slice(0, start));
    const reply = Object.freeze(tokens.slice(start, end));
    runProcessors(this.#processors, logits, legal, { prompt, reply });
    const isBanned = (token: number) => logits[token] === Number.NEGATIVE_INFINITY;
    const kept = keep === undefined ? -1 : legal.indexOf(keep);
    if (keep !== undefined && kept >= 0 && isBanned(keep)) logits[keep] = raw[kept] as number;
    const support = legal.filter((token) => !isBanned(token));
    return { support, values: Float64Array.from(support, (token) => logits[token] as number), slopes: null };
  }

  /** Returns the slopes, or null when the penalty is off. */
  #penalizeRepetition({ support, values }: AdjustedLogits, { tokens, end }: ReplyState): Float64Array | null {
    const { repetitionPenalty } = this.#penalties;
    if (repetitionPenalty === 1) return null;
    const counts = this.#countTokens(tokens, 0, end);
    const slopes = new Float64Array(support.length).fill(1);
    for (let index = 0; index < support.length; index++) {
      if (counts[support[index] as number] === 0) continue;
      const value = values[index] as number;
      values[index] = value > 0 ? value / repetitionPenalty : value * repetitionPenalty;
      slopes[index] = value > 0 ? 1 / repetitionPenalty : repetitionPenalty;
    }
    return slopes;
  }

  #penalizeReply({ support, values }: AdjustedLogits, { tokens, start, end }: ReplyState): void {
    const { frequencyPenalty, presencePenalty } = this.#penalties;
    if (frequencyPenalty === 0 && presencePenalty === 0) return;
    const counts = this.#countTokens(tokens, start, end);
    for (let index = 0; index < support.length; index++) {
      const count = counts[support[index] as number] as number;
      if (count > 0) values[index] = (values[index] as number) - frequencyPenalty * count - presencePenalty;
    }
  }

  /** How often each token occurs from `start` to `end`. */
  #countTokens(tokens: readonly number[], start: number, end: number): Uint32Array {
    const counts = new Uint32Array(this.#vocabularySize);
    for (let index = start; index < end; index++) {
      const token = tokens[index] as number;
      counts[token] = (counts[token] as number) + 1;
    }
    return counts;
  }
}
