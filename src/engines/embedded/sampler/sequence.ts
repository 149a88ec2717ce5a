import type {
  Generation,
  GenerationDelta,
  SamplingParameters,
  Tokenizer,
  TokenLogprob,
} from '../../engine.ts';
import { type Distribution, distributionOf, likeliest, pick } from '../distribution.ts';
import type { ConstraintState } from '../grammar/index.ts';
import type { Random } from '../random.ts';

export interface SequenceOptions {
  prompt: readonly number[];
  sampling: SamplingParameters;
  maxTokens: number;
  stopStrings: readonly string[];
  stopTokens: readonly number[];
  topLogprobs: number;
}

/** What a sequence draws from beside the model. */
export interface SequenceSources {
  tokenizer: Tokenizer;
  endToken: number;
  /** Legal tokens where no constraint holds. */
  unconstrained: Int32Array;
  constraint: ConstraintState | null;
  random: Random;
}

/** One reply being sampled: its tokens so far, and what comes next. */
export class Sequence {
  /** Prompt and reply. */
  readonly tokens: number[];
  readonly promptLength: number;
  /** How many of `tokens` have their keys and values in the cache. */
  computed = 0;
  cachedTokens = 0;
  readonly #options: SequenceOptions;
  readonly #sources: SequenceSources;
  readonly #stopTexts: string[];
  readonly #reply: GenerationDelta = { tokens: [], logprobs: [], topLogprobs: [] };
  #flushed = 0;
  /** The reply's bytes, one character each. */
  #bytes = '';
  #end: Pick<Generation, 'finishReason' | 'stop'> | undefined;
  #cancelled = false;

  constructor(options: SequenceOptions, sources: SequenceSources) {
    this.#options = options;
    this.#sources = sources;
    this.tokens = [...options.prompt];
    this.promptLength = options.prompt.length;
    this.#stopTexts = options.stopStrings.map((text) => Buffer.from(text).toString('latin1'));
    if (options.maxTokens <= 0) this.#end = { finishReason: 'length', stop: null };
    this.#appendForced();
  }

  get ended(): boolean {
    return this.#cancelled || this.#end !== undefined;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Nobody waits for it any more; it leaves its batch after the current step. */
  cancel(): void {
    this.#cancelled = true;
  }

  /** Samples the next token from the logits after the last one. */
  sample(logits: Float32Array, offset: number): void {
    if (this.ended) return;
    const { constraint, unconstrained, random } = this.#sources;
    const legal = constraint ? constraint.legal() : unconstrained;
    const distribution = distributionOf(logits, offset, legal, this.#options.sampling);
    const index =
      this.#options.sampling.temperature === 0
        ? likeliest(distribution)
        : pick(distribution, random.uniform());
    const token = distribution.support[index] as number;
    constraint?.accept(token);
    this.#append(token, distribution.logprobs[index] as number, this.#alternatives(distribution));
    this.#appendForced();
  }

  /** The tokens since the last call. */
  takeDelta(): GenerationDelta {
    const from = this.#flushed;
    this.#flushed = this.#reply.tokens.length;
    return {
      tokens: this.#reply.tokens.slice(from),
      logprobs: this.#reply.logprobs.slice(from),
      topLogprobs: this.#reply.topLogprobs.slice(from),
    };
  }

  finish(): Generation {
    if (!this.#end) throw new Error('the sequence has not ended');
    return { ...this.#reply, ...this.#end, cachedTokens: this.cachedTokens };
  }

  dispose(): void {
    this.#sources.constraint?.dispose();
  }

  /** Takes the tokens that have no alternative; nothing is sampled for them. */
  #appendForced(): void {
    const { constraint } = this.#sources;
    if (!constraint || this.#end || constraint.ended) return;
    for (const token of constraint.takeForced()) {
      if (this.#end) return;
      this.#append(token, 0, this.#options.topLogprobs > 0 ? [{ token, logprob: 0 }] : []);
    }
  }

  #append(token: number, logprob: number, alternatives: TokenLogprob[]): void {
    this.tokens.push(token);
    this.#reply.tokens.push(token);
    this.#reply.logprobs.push(logprob);
    this.#reply.topLogprobs.push(alternatives);
    if (token === this.#sources.endToken) this.#end = { finishReason: 'stop', stop: null };
    else if (this.#options.stopTokens.includes(token)) this.#end = { finishReason: 'stop', stop: token };
    else this.#checkStopStrings(token);
    if (!this.#end && this.#reply.tokens.length >= this.#options.maxTokens)
      this.#end = { finishReason: 'length', stop: null };
  }

  #checkStopStrings(token: number): void {
    if (this.#stopTexts.length === 0) return;
    const before = this.#bytes.length;
    this.#bytes += Buffer.from(this.#sources.tokenizer.bytes(token)).toString('latin1');
    for (const [index, text] of this.#stopTexts.entries())
      if (this.#bytes.indexOf(text, Math.max(0, before - text.length + 1)) >= 0)
        this.#end ??= { finishReason: 'stop', stop: this.#options.stopStrings[index] as string };
  }

  #alternatives({ support, logprobs }: Distribution): TokenLogprob[] {
    const count = this.#options.topLogprobs;
    if (count === 0) return [];
    return Array.from(support, (token, index) => ({ token, logprob: logprobs[index] as number }))
      .sort((a, b) => b.logprob - a.logprob || a.token - b.token)
      .slice(0, count);
  }
}
