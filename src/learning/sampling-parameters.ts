/** A request's use of a logits processor, by the name under which the operator registered it. */
export interface ProcessorCall {
  name: string;
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** The request's `engine_xargs`. */
  extra: Readonly<Record<string, unknown>>;
}

/**
 * The parameters that turn the logits z after a prefix into the distribution a token is sampled from. Sampling and
 * training apply them in the same order:
 *
 * 1. Legal tokens: those the constraint allows, or without one all text tokens and the end token. Then, in this order:
 *    only `allowedTokens`; not `minTokens.barred` while the reply is shorter than `minTokens.count`; not the end token
 *    with `ignoreEnd` and a constraint; no token that would complete one of `bannedTexts`. A rule that would leave no
 *    token is ignored, so that tokens forced by a constraint remain.
 * 2. `processors`, in their order, where a ban of all tokens is ignored too; then z + `logitBias`.
 * 3. `repetitionPenalty` p over the distinct tokens of prompt and reply: z / p where z > 0, else z * p (Keskar et al.
 *    2019, arXiv:1909.05858, section 4.1, with the common treatment of negative logits).
 * 4. z - `frequencyPenalty` * (occurrences of the token in the reply) - `presencePenalty` * (1 if there are any).
 * 5. z / `temperature`. With 0 the likeliest token is taken, and log-probabilities are those at temperature 1.
 * 6. `topK`, `topP`, `minP`, in this order, each to the tokens that the one before left; these are renormalised.
 */
export interface SamplingParameters {
  temperature: number;
  /** Keep the smallest set of tokens whose probability reaches this; 1 is off. */
  topP: number;
  /** Keep the k likeliest tokens; 0 is off. */
  topK: number;
  /** Keep tokens at least this fraction as likely as the likeliest token; 0 is off. */
  minP: number;
  /** 1 is off. */
  repetitionPenalty: number;
  /** 0 is off. */
  frequencyPenalty: number;
  /** 0 is off. */
  presencePenalty: number;
  /** Added to the logits of these tokens. */
  logitBias: readonly (readonly [token: number, bias: number])[];
  /** The only tokens a reply may contain; null is off. */
  allowedTokens: readonly number[] | null;
  /** Texts that never appear in the reply, however they are cut into tokens. */
  bannedTexts: readonly string[];
  /** Tokens that are illegal among the reply's first `count` tokens; null is off. */
  minTokens: { count: number; barred: readonly number[] } | null;
  /** Whether the reply continues after an end token. */
  ignoreEnd: boolean;
  processors: readonly ProcessorCall[];
}

/** The model's distribution: temperature 1 and everything else off. */
export const plainSampling: SamplingParameters = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
  allowedTokens: null,
  bannedTexts: [],
  minTokens: null,
  ignoreEnd: false,
  processors: [],
};
