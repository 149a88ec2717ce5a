import type { ScoredToken, ScorePromptRequest, TokenLogprob } from '../../engine.ts';
import { notNumbers } from './not-numbers.ts';

/** How likely each token of a prompt is, as far as it has been computed. */
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

  /** How many tokens have been run through the model; what follows the last one is no part of the prompt. */
  get computed(): number {
    return this.#scores.length - 1;
  }

  get ended(): boolean {
    return this.#cancelled || this.#failure !== undefined || this.#scores.length === this.prompt.length;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Why it cannot go on; undefined where nothing is wrong. */
  get failure(): unknown {
    return this.#failure;
  }

  cancel(): void {
    this.#cancelled = true;
  }

  dispose(): void {}

  /** Takes the logits after the next `count` tokens, [count, vocabulary]. What goes wrong ends these scores alone. */
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

/** A token under the softmax of the logits. Among equals the lower token ranks first. */
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
