import type { ConstraintState, ShouldPause } from '../../../language/grammars.ts';
import { StopStrings } from '../../../language/index.ts';
import type { Generation, GenerationDelta, SamplingParameters, TokenLogprob } from '../../engine.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { Random } from '../random.ts';
import {
  type Distribution,
  type LogitRows,
  likeliest,
  logprobAt,
  nanLogits,
  pick,
  topOf,
} from '../sampling/distribution.ts';
import type { ReplyState } from '../sampling/logit-adjustments.ts';
import type { ReplySampling } from '../sampling/reply-sampling.ts';
import { Answer } from './answer.ts';
import type { Draw, Drawn } from './draws.ts';

export interface SequenceOptions {
  prompt: readonly number[];
  sampling: SamplingParameters;
  maxTokens: number;
  stopStrings: readonly string[];
  stopTokens: readonly number[];
  topLogprobs: number;
}

/** What a sequence needs besides the model to choose its tokens. */
interface SequenceSources {
  codec: ConversationCodec;
  constraint: ConstraintState | null;
  random: Random;
}

/** A beam that continues, and its parent: the beam of the previous step whose keys and values it takes over. */
export interface Continuation {
  sequence: Sequence;
  parent: Sequence;
}

/** An answer whose sequences have slots in a pool: a reply, or the beams of a search. */
export abstract class SampledAnswer extends Answer {
  /** Number of slots that it may use at once. */
  abstract readonly width: number;
  /** The sequence that it begins with. */
  abstract readonly root: Sequence;

  /** The token that the graphs may choose after a sequence; null where the answer needs the logits. */
  draw(_sequence: Sequence): Draw | null {
    return null;
  }

  /** Takes the row of logits after the last token of one of its sequences. An error ends only this answer. */
  abstract choose(rows: LogitRows, row: number, sequence: Sequence): void;

  /**
   * Called once every sequence has its logits. Returns the sequences of the next step, and which of the
   * previous step led to a reply; null if the sequences stay the same.
   */
  advance(): { beams: Continuation[]; completed: Set<Sequence> } | null {
    return null;
  }
}

/** One reply that is being sampled. */
export class Sequence extends SampledAnswer {
  readonly width = 1;
  /** Prompt and reply. */
  readonly tokens: number[];
  readonly promptLength: number;
  /** Number of `tokens` whose keys and values are in the cache. */
  computed = 0;
  cachedTokens = 0;
  readonly #options: SequenceOptions;
  readonly #sources: SequenceSources;
  readonly #sampling: ReplySampling;
  readonly #stopStrings: StopStrings;
  readonly #reply: GenerationDelta;
  #flushed = 0;
  #uniform: number | null = null;
  #end: Pick<Generation, 'finishReason' | 'stop'> | undefined;

  /** Throws an `EngineError` that names an invalid option. `original` is only for `fork`. */
  constructor(options: SequenceOptions, sources: SequenceSources, original?: Sequence) {
    super();
    this.#options = options;
    this.#sources = sources;
    this.promptLength = options.prompt.length;
    if (original) {
      this.tokens = [...original.tokens];
      this.computed = original.computed;
      this.cachedTokens = original.cachedTokens;
      this.#sampling = original.#sampling;
      this.#stopStrings = original.#stopStrings.fork();
      this.#reply = sliceReply(original.#reply, 0);
      return;
    }
    this.tokens = [...options.prompt];
    this.#sampling = sources.codec.prepareSampling(options.sampling);
    this.#stopStrings = new StopStrings(options.stopStrings);
    this.#reply = { tokens: [], logprobs: [], topLogprobs: [] };
    if (options.maxTokens <= 0) this.#end = { finishReason: 'length', stop: null };
    this.#appendForced();
  }

  get root(): Sequence {
    return this;
  }

  get complete(): boolean {
    return this.#end !== undefined;
  }

  override draw(): Draw | null {
    if (!this.prepare(() => true) || this.ended) return null;
    try {
      const legal = this.#sampling.softmaxSupport(this.#state());
      const { temperature } = this.#options.sampling;
      const uniform = temperature === 0 ? 0 : this.#nextUniform();
      return legal && { legal, temperature, uniform, top: this.#options.topLogprobs };
    } catch (error) {
      this.fail(error);
      return null;
    }
  }

  /** Takes the token that the graphs chose for `draw`. */
  takeDrawn({ token, logprob, top }: Drawn): void {
    if (this.ended) return;
    try {
      if (!Number.isFinite(logprob)) throw nanLogits();
      this.#uniform = null;
      this.take(token, logprob, top);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Samples the next token from the row of logits after the last one. */
  choose(rows: LogitRows, row: number): void {
    if (this.ended) return;
    try {
      const distribution = this.next(rows, row);
      const greedy = this.#options.sampling.temperature === 0;
      const index = greedy ? likeliest(distribution) : pick(distribution, this.#nextUniform());
      this.#uniform = null;
      const token = distribution.support[index] as number;
      this.take(token, logprobAt(distribution, index), this.alternatives(distribution));
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * Computes which tokens the constraint allows next, until `isOver` returns true. Returns true once that is known. A
   * grammar that is too complex ends only this sequence.
   */
  prepare(isOver: ShouldPause): boolean {
    if (this.ended) return true;
    try {
      return this.#sources.constraint?.prepare(isOver) ?? true;
    } catch (error) {
      this.fail(error);
      return true;
    }
  }

  /**
   * The distribution of the next token, from the row of logits after the last one. Throws when a logits processor fails, and
   * when the logits are NaN, as they are after training that diverged.
   */
  next(rows: LogitRows, row: number): Distribution {
    const distribution = this.#sampling.distribution(rows, row, this.#state());
    if (!Number.isFinite(distribution.shift)) throw nanLogits();
    return distribution;
  }

  /** Appends a token of the support of `next`, and the tokens its constraint forces after it. */
  take(token: number, logprob: number, alternatives: TokenLogprob[]): void {
    this.#sources.constraint?.accept(token);
    this.#append(token, logprob, alternatives);
    this.#appendForced();
  }

  /** The `topLogprobs` likeliest tokens of a distribution, likeliest first. */
  alternatives(distribution: Distribution): TokenLogprob[] {
    return topOf(distribution, this.#options.topLogprobs);
  }

  /** An independent copy. The two share only their random number generator. */
  fork(): Sequence {
    const constraint = this.#sources.constraint?.clone() ?? null;
    return new Sequence(this.#options, { ...this.#sources, constraint }, this);
  }

  /** The tokens since the last call. */
  takeDelta(): GenerationDelta {
    const from = this.#flushed;
    this.#flushed = this.#reply.tokens.length;
    return sliceReply(this.#reply, from);
  }

  finish(): Generation {
    if (!this.#end) throw new Error('the sequence has not ended');
    return { ...this.#reply, ...this.#end, cachedTokens: this.cachedTokens };
  }

  #state(): ReplyState {
    return {
      tokens: this.tokens,
      start: this.promptLength,
      end: this.tokens.length,
      allowed: this.#sources.constraint?.legal().ids ?? null,
    };
  }

  /** The number that chooses the next token: the same one until it has. */
  #nextUniform(): number {
    this.#uniform ??= this.#sources.random.uniform();
    return this.#uniform;
  }

  /** Appends the tokens that have no alternative; nothing is sampled for them. */
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
    this.#end ??= this.#stopAt(token);
    if (!this.#end && this.#reply.tokens.length >= this.#options.maxTokens)
      this.#end = { finishReason: 'length', stop: null };
  }

  /** How the last token ends the reply; undefined if it does not. */
  #stopAt(token: number): Pick<Generation, 'finishReason' | 'stop'> | undefined {
    const { codec, constraint } = this.#sources;
    const { sampling, stopTokens } = this.#options;
    const found = this.#stopStrings.find(codec.tokenizer.bytes(token));
    // `ignoreEnd` cannot hold when a constraint has ended: no token is legal after that.
    if (token === codec.format.endToken && (constraint !== null || !sampling.ignoreEnd))
      return { finishReason: 'stop', stop: null };
    if (this.#reply.tokens.length < (sampling.minTokens?.count ?? 0)) return undefined;
    const stop = stopTokens.includes(token) ? token : found;
    return stop === null ? undefined : { finishReason: 'stop', stop };
  }
}

function sliceReply({ tokens, logprobs, topLogprobs }: GenerationDelta, from: number): GenerationDelta {
  return { tokens: tokens.slice(from), logprobs: logprobs.slice(from), topLogprobs: topLogprobs.slice(from) };
}
