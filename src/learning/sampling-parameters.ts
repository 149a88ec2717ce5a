/** A logits processor that a request asks for by the name under which the operator has registered it. */
export interface ProcessorCall {
  name: string;
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** The request's `engine_xargs`. */
  extra: Readonly<Record<string, unknown>>;
}

/**
 * What turns the logits z after a prefix into the distribution a token is sampled from. Sampling and training apply
 * it alike, in this order:
 *
 * 1. Legal tokens: those the constraint allows, or all text and the end. Then, one after the other, only
 *    `allowedTokens`; without `minTokens.barred` while the reply is shorter than `minTokens.count`; without the end
 *    where `ignoreEnd` and a constraint holds; without tokens that would complete one of `bannedTexts`. A rule that
 *    would leave nothing is passed over: what a constraint forces stands.
 * 2. `processors`, in their order, where a ban of all tokens is passed over too; then z + `logitBias`.
 * 3. `repetitionPenalty` p over the distinct tokens of prompt and reply: z / p where z > 0, else z * p (Keskar et al.
 *    2019, arXiv:1909.05858, section 4.1, in the form for negative logits that is in use).
 * 4. z - `frequencyPenalty` * (times the token stands in the reply) - `presencePenalty` * (1 if it does).
 * 5. z / `temperature`; 0 takes the likeliest token, and its log-probabilities are those at temperature 1.
 * 6. `topK`, `topP`, `minP`, in this order, each over what the one before it left; what remains is renormalised.
 */
export interface SamplingParameters {
  temperature: number;
  /** Smallest set of tokens whose probability reaches this; 1 is off. */
  topP: number;
  /** The k likeliest tokens; 0 is off. */
  topK: number;
  /** Tokens at least this fraction as likely as the likeliest; 0 is off. */
  minP: number;
  /** 1 is off. */
  repetitionPenalty: number;
  /** 0 is off. */
  frequencyPenalty: number;
  /** 0 is off. */
  presencePenalty: number;
  /** What is added to a token's logit. */
  logitBias: readonly (readonly [token: number, bias: number])[];
  /** null is off. */
  allowedTokens: readonly number[] | null;
  /** Texts that never come to stand in the reply, however they are cut into tokens. */
  bannedTexts: readonly string[];
  /** Tokens that cannot come among the reply's first `count`; null is off. */
  minTokens: { count: number; barred: readonly number[] } | null;
  /** The end token does not end the reply. */
  ignoreEnd: boolean;
  processors: readonly ProcessorCall[];
}

/** The model's own distribution: temperature 1 and everything else off. */
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
