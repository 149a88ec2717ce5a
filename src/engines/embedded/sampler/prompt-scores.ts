import { FairQueue } from '../../../util/fair-queue.ts';
import type { ScoredToken, ScorePromptRequest } from '../../engine.ts';
import { type LogitRows, logprobAt, nanLogits, softmaxOf, topOf } from '../sampling/distribution.ts';
import { Answer } from './answer.ts';
import type { Decoder } from './decoder.ts';

/** The scores of a prompt's tokens, as far as they are computed. */
export class PromptScores extends Answer {
  readonly prompt: readonly number[];
  /** Number of tokens that are compared. A checkpoint may have logits for more, which mean nothing. */
  readonly vocabularySize: number;
  readonly #top: number;
  readonly #scores: (ScoredToken | null)[] = [null];

  constructor({ prompt, top }: Pick<ScorePromptRequest, 'prompt' | 'top'>, vocabularySize: number) {
    super();
    this.prompt = prompt;
    this.vocabularySize = vocabularySize;
    this.#top = top;
  }

  /** Number of tokens run through the model. The last token of the prompt never is: nothing follows it. */
  get computed(): number {
    return this.#scores.length - 1;
  }

  get complete(): boolean {
    return this.#scores.length === this.prompt.length;
  }

  /** Takes the logits after the next `count` tokens. An error ends only this prompt's scores. `all`: the vocabulary. */
  take(rows: LogitRows, count: number, all: Int32Array): void {
    try {
      for (let row = 0; row < count; row++) this.#scores.push(this.#score(rows, row, all));
    } catch (error) {
      this.fail(error);
    }
  }

  finish(): (ScoredToken | null)[] {
    return this.#scores;
  }

  /** Scores the next token under the softmax of the whole vocabulary's logits. Among equals the lower token ranks first. */
  #score(rows: LogitRows, row: number, all: Int32Array): ScoredToken {
    const token = this.prompt[this.#scores.length] as number;
    const distribution = softmaxOf(rows, row, all);
    if (!distribution) throw nanLogits();
    const logprob = logprobAt(distribution, token);
    let rank = 1;
    for (let id = 0; id < all.length; id++) {
      const other = logprobAt(distribution, id);
      if (other > logprob || (other === logprob && id < token)) rank++;
    }
    return { token, logprob, rank, top: topOf(distribution, this.#top) };
  }
}

/** Most tokens of one step: bounds how long other sequences wait. */
const maxTokensPerStep = 128;

/** Most logits of one step: bounds the memory, at 30 MiB for each array of them. */
const maxLogitsPerStep = 8_000_000;

/**
 * Scores prompts one after another, one chunk in each step. Tenants take turns, with equal shares of tokens. It has a
 * key-value cache of its own, and no prefix cache, because it needs the logits of every token.
 */
export class PromptScorer {
  readonly #decoder: Decoder;
  readonly #tokensPerStep: number;
  readonly #waiting: FairQueue<PromptScores>;
  #current: PromptScores | undefined;
  /** All tokens that are compared. */
  #vocabulary = new Int32Array(0);

  /** `overdueMs`: see `FairQueue`. */
  constructor(
    decoder: Decoder,
    { vocabularySize, overdueMs }: { vocabularySize: number; overdueMs: number },
  ) {
    this.#decoder = decoder;
    this.#waiting = new FairQueue({ overdueMs });
    this.#tokensPerStep = Math.max(
      1,
      Math.min(maxTokensPerStep, Math.floor(maxLogitsPerStep / vocabularySize)),
    );
  }

  get idle(): boolean {
    return !this.#current && this.#waiting.count === 0;
  }

  add(
    scores: PromptScores,
    { priority, tenant }: Pick<ScorePromptRequest, 'priority' | 'tenant'> = {},
  ): void {
    this.#waiting.add(scores, { priority, tenant, slots: scores.prompt.length });
  }

  /** Computes one chunk. Returns the prompts that have ended. */
  async step(): Promise<PromptScores[]> {
    const ended = this.#waiting.remove((scores) => scores.ended);
    this.#current ??= this.#waiting.take();
    const current = this.#current;
    if (current && !current.ended) await this.#compute(current);
    if (current?.ended) {
      ended.push(current);
      this.#current = undefined;
    }
    if (this.idle) this.#decoder.cache.clear();
    return ended;
  }

  async #compute(scores: PromptScores): Promise<void> {
    const { prompt, computed } = scores;
    const end = Math.min(prompt.length - 1, computed + this.#tokensPerStep);
    this.#decoder.cache.reserve(1, end, computed > 0 ? 1 : 0);
    const rows = await this.#decoder.run(0, [{ tokens: prompt, start: computed, end }], {
      everyToken: true,
    });
    if (this.#vocabulary.length !== scores.vocabularySize)
      this.#vocabulary = Int32Array.from({ length: scores.vocabularySize }, (_, id) => id);
    scores.take(rows, end - computed, this.#vocabulary);
  }
}
