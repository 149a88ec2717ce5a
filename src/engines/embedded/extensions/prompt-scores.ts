import type { ScoredToken, ScorePromptRequest, TokenLogprob } from '../../engine.ts';
import type { Decoder } from '../sampler/decoder.ts';
import { notNumbers } from '../sampling/distribution.ts';

/** The scores of a prompt's tokens, as far as they are computed. */
export class PromptScores {
  readonly prompt: readonly number[];
  readonly #top: number;
  readonly #scores: (ScoredToken | null)[] = [null];
  #cancelled = false;
  #failure: unknown;

  constructor({ prompt, top }: Pick<ScorePromptRequest, 'prompt' | 'top'>) {
    this.prompt = prompt;
    this.#top = top;
  }

  /** Number of tokens run through the model. The last token of the prompt never is: nothing follows it. */
  get computed(): number {
    return this.#scores.length - 1;
  }

  get ended(): boolean {
    return this.#cancelled || this.#failure !== undefined || this.#scores.length === this.prompt.length;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** The error that ended the scoring; undefined if there was none. */
  get failure(): unknown {
    return this.#failure;
  }

  cancel(): void {
    this.#cancelled = true;
  }

  dispose(): void {}

  /** Takes the logits after the next `count` tokens, [count, vocabulary]. An error ends only this prompt's scores. */
  take(logits: Float32Array, count: number, vocabularySize: number): void {
    try {
      this.#score(logits, count, vocabularySize);
    } catch (error) {
      this.#failure = error ?? new Error('the scores failed');
    }
  }

  finish(): (ScoredToken | null)[] {
    return this.#scores;
  }

  #score(logits: Float32Array, count: number, vocabularySize: number): void {
    for (let row = 0; row < count; row++) {
      const token = this.prompt[this.#scores.length] as number;
      const values = logits.subarray(row * vocabularySize, (row + 1) * vocabularySize);
      this.#scores.push(scoreToken(values, token, this.#top));
    }
  }
}

/** Scores a token under the softmax of the logits. Among equals the lower token ranks first. */
function scoreToken(logits: Float32Array, token: number, top: number): ScoredToken {
  const own = logits[token] as number;
  let rank = 1;
  let largest = Number.NEGATIVE_INFINITY;
  for (let id = 0; id < logits.length; id++) {
    const value = logits[id] as number;
    if (value > own || (value === own && id < token)) rank++;
    if (value > largest) largest = value;
  }
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - largest);
  const shift = largest + Math.log(sum);
  if (Number.isNaN(shift)) throw notNumbers();
  return { token, logprob: own - shift, rank, top: likeliestOf(logits, shift, top) };
}

function likeliestOf(logits: Float32Array, shift: number, count: number): TokenLogprob[] {
  if (count === 0) return [];
  return Array.from(logits.keys())
    .sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b)
    .slice(0, count)
    .map((token) => ({ token, logprob: (logits[token] as number) - shift }));
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
    const logits = await this.#decoder.runThrough(0, { tokens: prompt, start: computed, end });
    scores.take(logits, end - computed, this.#vocabularySize);
  }

  #takeEnded(): PromptScores[] {
    const ended = this.#waiting.filter((scores) => scores.ended);
    if (ended.length > 0) this.#waiting = this.#waiting.filter((scores) => !scores.ended);
    return ended;
  }
}
