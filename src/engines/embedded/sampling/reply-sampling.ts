import { EngineError, type SamplingParameters } from '../../engine.ts';
import { BannedTexts } from '../extensions/banned-texts.ts';
import { type LogitsProcessorFactories, makeProcessors } from '../extensions/logits-processors.ts';
import {
  type Distribution,
  distributionOf,
  type LogitRows,
  rowLength,
  smallTemperature,
  softmaxOf,
} from './distribution.ts';
import { LogitAdjustments, type ReplyState } from './logit-adjustments.ts';

/**
 * Computes token distributions under the `SamplingParameters` of one reply. Sampling and training share this class, so
 * their distributions differ only by the rounding of the logits.
 */
export class ReplySampling {
  readonly #parameters: SamplingParameters;
  readonly #legal: LegalTokens;
  readonly #adjustments: LogitAdjustments;
  /** Whether the distribution is the softmax of the legal logits, divided by the temperature. */
  readonly isSoftmax: boolean;
  /** Whether it is the distribution of the legal logits as they are. */
  readonly #isUnchanged: boolean;

  /** Throws an `EngineError` that names an invalid parameter. */
  constructor(parameters: SamplingParameters, text: TextTokens, factories: LogitsProcessorFactories) {
    const vocabularySize = text.bytes.length;
    checkParameters(parameters, vocabularySize);
    this.#parameters = parameters;
    this.#legal = new LegalTokens(parameters, text);
    const processors = makeProcessors(parameters.processors, factories, vocabularySize);
    this.#adjustments = new LogitAdjustments(parameters, processors, vocabularySize);
    const { temperature, topK, topP, minP } = parameters;
    const isCut = topK > 0 || topP < 1 || minP > 0;
    this.isSoftmax =
      this.#adjustments.isOff && !isCut && (temperature === 0 || temperature >= smallTemperature);
    this.#isUnchanged = this.isSoftmax && (temperature === 0 || temperature === 1);
  }

  /**
   * The legal tokens, ascending, if the distribution of a reply's next token is the softmax of their logits divided by
   * the temperature, and null if it is anything else. Do not change the array.
   */
  softmaxSupport(state: ReplyState): Int32Array | null {
    return this.isSoftmax ? this.#legal.legalAt(state) : null;
  }

  /**
   * The distribution of a reply's next token, for one row of logits. Throws an `EngineError` when a processor fails or a
   * logit becomes infinite.
   */
  distribution(rows: LogitRows, row: number, state: ReplyState): Distribution {
    const legal = this.#legal.legalAt(state);
    const unchanged = this.#isUnchanged ? softmaxOf(rows, row, legal) : null;
    if (unchanged) return unchanged;
    const adjusted = this.#adjustments.adjust(rows.logits, row * rowLength(rows), legal, state);
    return distributionOf(adjusted, this.#parameters, state.keep);
  }
}

function checkParameters(
  { repetitionPenalty, allowedTokens, minTokens, logitBias }: SamplingParameters,
  vocabularySize: number,
): void {
  if (!(repetitionPenalty > 0 && Number.isFinite(repetitionPenalty)))
    throw new EngineError(
      'bad_sampling',
      `\`repetitionPenalty\` is ${repetitionPenalty}. Pass a number above 0.`,
    );
  const named = {
    allowedTokens: allowedTokens ?? [],
    'minTokens.barred': minTokens?.barred ?? [],
    logitBias: logitBias.map(([token]) => token),
  };
  for (const [name, tokens] of Object.entries(named))
    for (const token of tokens)
      if (!Number.isInteger(token) || token < 0 || token >= vocabularySize)
        throw new EngineError(
          'bad_sampling',
          `\`${name}\` names token ${token}. The tokens are 0 to ${vocabularySize - 1}.`,
        );
}

/** The facts about the tokenizer that the rules of legal tokens need. */
interface TextTokens {
  endToken: number;
  /** Tokens that a reply without a constraint may contain, ascending. */
  unconstrained: Int32Array;
  /** The bytes of each token, with one character for each byte. */
  bytes: readonly string[];
}

/** Applies the `SamplingParameters` that decide which tokens are legal. */
class LegalTokens {
  readonly #text: TextTokens;
  readonly #allowed: ReadonlySet<number> | null;
  readonly #minimum: number;
  readonly #barred: ReadonlySet<number>;
  readonly #ignoreEnd: boolean;
  readonly #banned: BannedTexts | null;
  readonly #off: boolean;

  constructor({ allowedTokens, minTokens, ignoreEnd, bannedTexts }: SamplingParameters, text: TextTokens) {
    this.#text = text;
    this.#allowed = allowedTokens && new Set(allowedTokens);
    this.#minimum = minTokens?.count ?? 0;
    this.#barred = new Set(minTokens?.barred);
    this.#ignoreEnd = ignoreEnd;
    this.#banned = bannedTexts.length > 0 ? new BannedTexts(bannedTexts, text.bytes) : null;
    this.#off = !allowedTokens && !minTokens && !ignoreEnd && !this.#banned;
  }

  /** The legal ids, ascending. Do not change the array. */
  legalAt({ tokens, start, end, allowed }: ReplyState): Int32Array {
    let legal = allowed ?? this.#text.unconstrained;
    if (this.#off) return legal;
    const only = this.#allowed;
    if (only) legal = filterUnlessEmpty(legal, (token) => only.has(token));
    if (end - start < this.#minimum) legal = filterUnlessEmpty(legal, (token) => !this.#barred.has(token));
    if (this.#ignoreEnd && allowed)
      legal = filterUnlessEmpty(legal, (token) => token !== this.#text.endToken);
    if (this.#banned) legal = filterUnlessEmpty(legal, this.#banned.allowedAfter(tokens, start, end));
    return legal;
  }
}

/** The tokens that pass; all tokens if none passes. */
function filterUnlessEmpty(tokens: Int32Array, passes: (token: number) => boolean): Int32Array {
  const left = tokens.filter(passes);
  return left.length > 0 ? left : tokens;
}
