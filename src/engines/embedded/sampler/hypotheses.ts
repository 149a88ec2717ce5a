import type { Generation } from '../../engine.ts';

/** Scores replies of a search by the sum of their log-probabilities and their length. */
export class LengthPenalty {
  readonly #exponent: number;
  readonly #longest: number;

  /** `longest`: the most tokens that a reply can have. */
  constructor(exponent: number, longest: number) {
    this.#exponent = exponent;
    this.#longest = longest;
  }

  /** sum / tokens ^ exponent, where a reply of no tokens counts as one of one: 0 ^ exponent says nothing. */
  score(sum: number, tokens: number): number {
    return sum === 0 ? 0 : sum / Math.max(1, tokens) ** this.#exponent;
  }

  /**
   * The best score that what begins with `tokens` tokens of this sum can come to. Its sum can only fall, as no
   * log-probability is above 0, so the best that can happen is that every further token is certain. What remains is
   * the length m, with `tokens` <= m <= longest: as sum <= 0, sum / m ^ exponent rises with m for an exponent above 0,
   * does not depend on it at 0, and falls with m below 0. So the bound lies at the longest length or at the present
   * one (the end token does not count), and no smaller bound holds without knowing the model.
   */
  bound(sum: number, tokens: number): number {
    return this.score(sum, this.#exponent > 0 ? this.#longest : tokens);
  }
}

/** The number of tokens of a finished reply, without the end token where it ended it. */
export function scoredLength({ tokens, finishReason, stop }: Generation): number {
  return finishReason === 'stop' && stop === null ? tokens.length - 1 : tokens.length;
}

/** The best finished replies, best first; among equals the one found first. */
export class Hypotheses<Reply> {
  readonly #width: number;
  readonly #kept: { reply: Reply; score: number }[] = [];

  constructor(width: number) {
    this.#width = width;
  }

  get replies(): Reply[] {
    return this.#kept.map(({ reply }) => reply);
  }

  /** The score that a reply has to beat to be kept; null while there is room. */
  get worst(): number | null {
    return this.#kept.length < this.#width ? null : (this.#kept.at(-1)?.score ?? null);
  }

  add(reply: Reply, score: number): void {
    let at = this.#kept.length;
    while (at > 0 && (this.#kept[at - 1]?.score ?? 0) < score) at--;
    this.#kept.splice(at, 0, { reply, score });
    this.#kept.length = Math.min(this.#kept.length, this.#width);
  }
}
