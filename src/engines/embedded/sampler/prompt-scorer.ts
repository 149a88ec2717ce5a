import type { Decoder } from './decoder.ts';
import type { PromptScores } from './prompt-scores.ts';

/** Tokens of one step: bounds the memory, and what other sequences wait for. */
const tokensPerStep = 128;

/**
 * Scores prompts, one after the other and a chunk a step, on a cache of its own: nothing is taken from what other
 * sequences have computed, as the logits of every token are wanted, and nothing is left to them.
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

  /** Computes one chunk. Returns the prompts that are done with. */
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
    const logits = await this.#decoder.runThrough(0, { tokens: prompt, start: computed, end });
    scores.take(logits, end - computed, this.#vocabularySize);
  }

  #takeEnded(): PromptScores[] {
    const ended = this.#waiting.filter((scores) => scores.ended);
    if (ended.length > 0) this.#waiting = this.#waiting.filter((scores) => !scores.ended);
    return ended;
  }
}
