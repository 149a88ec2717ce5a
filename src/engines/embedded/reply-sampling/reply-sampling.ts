import type { SamplingParameters } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { type Distribution, distributionOf, distributionOfAdjusted } from '../distribution.ts';
import { type LogitsProcessorFactories, makeProcessors } from '../logits-processors/index.ts';
import { LegalTokens, type Place, type TextTokens } from './legal-tokens.ts';
import { LogitAdjustments } from './logit-adjustments.ts';

/**
 * `SamplingParameters` made ready for one reply. Sampling and training both ask it for the distribution of a token:
 * what they get differs by the rounding of the logits alone.
 */
export class ReplySampling {
  readonly #parameters: SamplingParameters;
  readonly #legal: LegalTokens;
  readonly #adjustments: LogitAdjustments;

  /** Throws an `EngineError` that names what cannot be meant. */
  constructor(parameters: SamplingParameters, text: TextTokens, factories: LogitsProcessorFactories) {
    const vocabularySize = text.bytes.length;
    checkParameters(parameters, vocabularySize);
    this.#parameters = parameters;
    this.#legal = new LegalTokens(parameters, text);
    const processors = makeProcessors(parameters.processors, factories, vocabularySize);
    this.#adjustments = new LogitAdjustments(parameters, processors, vocabularySize);
  }

  /**
   * The distribution of the next token at a place, of the logits at `offset`. `keep`, where it is legal, stays in the
   * support whatever processors and cut-offs say, so that a token that was sampled has a probability under a later
   * policy too. Throws an `EngineError` where a processor fails.
   */
  distribution(logits: Float32Array, offset: number, place: Place, keep?: number): Distribution {
    const legal = this.#legal.at(place);
    if (this.#adjustments.off) return distributionOf(logits, offset, legal, this.#parameters, keep);
    const adjusted = this.#adjustments.adjust(logits, offset, legal, place, keep);
    return distributionOfAdjusted(adjusted, this.#parameters, keep);
  }
}

function checkParameters(
  { repetitionPenalty, allowedTokens, minTokens, logitBias }: SamplingParameters,
  vocabularySize: number,
): void {
  if (!(repetitionPenalty > 0 && Number.isFinite(repetitionPenalty)))
    throw new EngineError(
      'bad_sampling',
      `repetitionPenalty must be a number above 0, not ${repetitionPenalty}`,
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
          `${name} names token ${token}; the tokens are 0 to ${vocabularySize - 1}`,
        );
}
