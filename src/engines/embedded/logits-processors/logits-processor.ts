/** What a logits processor is made with, once for each reply. */
export interface LogitsProcessorOptions {
  /** `args` and `kwargs` of the request's constructor object; empty where it gave a name alone. */
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** The request's `engine_xargs`. */
  extra: Readonly<Record<string, unknown>>;
  /** How many tokens there are; ids are below it. */
  vocabularySize: number;
}

/** What a logits processor works on before a token is sampled. */
export interface LogitsProcessorInput {
  /** Tokens before the reply. Frozen. */
  prompt: readonly number[];
  /** Tokens of the reply so far. Frozen. */
  reply: readonly number[];
  /**
   * A logit for each token, to be changed in place: finite numbers, or -Infinity, which bans a token. Tokens that are
   * not legal here stand at -Infinity, and what is written there counts for nothing.
   */
  logits: Float64Array;
}

/**
 * Changes the logits in place, before everything else that changes them. Training runs it again, in another thread
 * and for the same tokens in another order, so it must depend on nothing but its options and its input. The gradient
 * takes what it adds to a logit as a constant. A ban that would leave no token is passed over, and one of a token
 * that was sampled is passed over for that token in training.
 */
export type LogitsProcessor = (input: LogitsProcessorInput) => void;

/**
 * The default export of a logits processor's module: makes the processor of one reply. What it throws refuses the
 * request.
 */
export type LogitsProcessorFactory = (options: LogitsProcessorOptions) => LogitsProcessor;

/** The factories of the processors that requests may ask for, by name. */
export type LogitsProcessorFactories = ReadonlyMap<string, LogitsProcessorFactory>;
