import { plainSampling } from '../../../learning/index.ts';
import type { ScoredToken, ScorePromptRequest } from '../../engine.ts';
import type { Decoder } from '../sampler/decoder.ts';
import { Answer } from '../sampler/sequence.ts';
import { distributionOf, gatherLogits, nanLogits, topOf } from '../sampling/distribution.ts';

/** The scores of a prompt's tokens, as far as they are computed. */
export class PromptScores extends Answer {
  readonly prompt: readonly number[];
  readonly #top: number;
  readonly #scores: (ScoredToken | null)[] = [null];

  constructor({ prompt, top }: Pick<ScorePromptRequest, 'prompt' | 'top'>) {
    super();
    this.prompt = prompt;
    this.#top = top;
  }

  /** Number of tokens run through the model. The last token of the prompt never is: nothing follows it. */
  get computed(): number {
    return this.#scores.length - 1;
  }

  get complete(): boolean {
    return this.#scores.length === this.prompt.length;
  }

  /** Takes the logits after the next `count` tokens, [count, vocabulary]. An error ends only this prompt's scores. */
  take(logits: Float32Array, count: number, vocabularySize: number): void {
    const all = Int32Array.from({ length: vocabularySize }, (_, id) => id);
    try {
      for (let row = 0; row < count; row++) this.#scores.push(this.#score(logits, row * vocabularySize, all));
    } catch (error) {
      this.fail(error);
    }
  }

  finish(): (ScoredToken | null)[] {
    return this.#scores;
  }

  /** Scores the next token under the softmax of all logits. Among equals the lower token ranks first. */
  #score(logits: Float32Array, offset: number, all: Int32Array): ScoredToken {
    const token = this.prompt[this.#scores.length] as number;
    const distribution = distributionOf(gatherLogits(logits, offset, all), plainSampling);
    const { logprobs } = distribution;
    const logprob = logprobs[token] as number;
    if (Number.isNaN(logprob)) throw nanLogits();
    let rank = 1;
    for (let id = 0; id < logprobs.length; id++) {
      const other = logprobs[id] as number;
      if (other > logprob || (other === logprob && id < token)) rank++;
    }
    return { token, logprob, rank, top: topOf(distribution, this.#top) };
  }
}

/** Tokens of one step: bounds the memory, and how long other sequences wait. */
const tokensPerStep = 128;

/**
 * Scores prompts one after another, one chunk in each step. It uses a separate key-value cache, and no prefix cache,
 * because it needs the logits of every token.
 */
export class PromptScorer {
  readonly #decoder: Decoder;
  readonly #vocabularySize: number;
  #waiting: PromptScores[] = [];

  constructor(decoder: Decoder, vocabularySize: number) {
    this.#decoder = decoder;
    this.#vocabularySize = vocabularySize;
  }

  get idle(): boolean {
    return this.#waiting.length === 0;
  }

  add(scores: PromptScores): void {
    this.#waiting.push(scores);
  }

  /** Computes one chunk. Returns the prompts that have ended. */
  async step(): Promise<PromptScores[]> {
    const cancelled = this.#takeEnded();
    const current = this.#waiting[0];
    if (current) await this.#compute(current);
    const ended = [...cancelled, ...this.#takeEnded()];
    if (this.idle) this.#decoder.cache.clear();
    return ended;
  }

  async #compute(scores: PromptScores): Promise<void> {
    const { prompt, computed } = scores;
    const end = Math.min(prompt.length - 1, computed + tokensPerStep);
    this.#decoder.cache.reserve(1, end, computed > 0 ? 1 : 0);
    const logits = await this.#decoder.run(0, [{ tokens: prompt, start: computed, end }], {
      everyToken: true,
    });
    scores.take(logits, end - computed, this.#vocabularySize);
  }

  #takeEnded(): PromptScores[] {
    const ended = this.#waiting.filter((scores) => scores.ended);
    if (ended.length > 0) this.#waiting = this.#waiting.filter((scores) => !scores.ended);
    return ended;
  }
}
