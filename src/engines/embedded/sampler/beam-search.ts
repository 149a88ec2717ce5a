import type { Generation } from '../../engine.ts';
import { copyRow, type Distribution, type LogitRows, logprobAt } from '../sampling/distribution.ts';
import { type Continuation, SampledAnswer, type Sequence } from './sequence.ts';

interface Beam extends Continuation {
  /** Sum of the reply's log-probabilities. */
  sum: number;
  distribution: Distribution | null;
}

/**
 * A search for the likeliest replies. In each step every beam takes one token and then its forced tokens, which cost
 * nothing. All tokens that may follow the beams are candidates, ranked by the sum of log-probabilities they lead to.
 * A candidate that ends its reply is a found reply if it is among the `width` best of the step, so that width 1 is
 * greedy decoding; the `width` best of the other candidates become the next beams. Beams at the token limit are found
 * replies too. The search ends when it has found `width` replies and no beam can score better than the worst of them
 * (`LengthPenalty.bound`), or when no beam is left.
 *
 * Equal sums are ranked by beam and then by token, equal scores by the order in which they were found, so that the
 * same request finds the same replies.
 */
export class BeamSearch extends SampledAnswer {
  readonly width: number;
  readonly root: Sequence;
  readonly #penalty: LengthPenalty;
  readonly #found: BestReplies<Sequence>;
  #beams: Beam[] = [];

  /** `root`: the reply before its first decision. */
  constructor(
    root: Sequence,
    { width, lengthPenalty, maxTokens }: { width: number; lengthPenalty: number; maxTokens: number },
  ) {
    super();
    this.width = width;
    this.root = root;
    this.#penalty = new LengthPenalty(lengthPenalty, maxTokens);
    this.#found = new BestReplies(width);
    const beam: Beam = { sequence: root, parent: root, sum: 0, distribution: null };
    if (root.ended) this.#add(beam);
    else this.#beams.push(beam);
  }

  get complete(): boolean {
    return this.#beams.length === 0;
  }

  choose(rows: LogitRows, row: number, sequence: Sequence): void {
    const beam = this.#beams.find((one) => one.sequence === sequence);
    if (this.ended || !beam) return;
    try {
      // The rows are overwritten before the step ends.
      beam.distribution = sequence.next(copyRow(rows, row), 0);
    } catch (error) {
      this.fail(error);
    }
  }

  override advance(): { beams: Continuation[]; completed: Set<Sequence> } {
    const before = this.#beams;
    const completed = new Set<Sequence>();
    try {
      this.#beams = this.#branch(before, completed);
    } catch (error) {
      this.fail(error);
    }
    if (this.#beams.every((beam) => this.#cannotWin(beam))) this.#beams = [];
    return { beams: this.ended ? [] : this.#beams, completed };
  }

  /** The replies found, best first. */
  finish(): Generation[] {
    return this.#found.replies.map((sequence) => sequence.finish());
  }

  /** Returns the beams of the next step, and stores the replies that it finds. */
  #branch(before: readonly Beam[], completed: Set<Sequence>): Beam[] {
    const next: Beam[] = [];
    const scored = before.map(({ sum, distribution }): ScoredBeam => {
      if (!distribution) throw new Error('a beam has no distribution');
      return { sum, distribution };
    });
    let openBeams = this.width;
    let rank = 0;
    for (const { beam: index, index: choice, sum } of candidatesOf(scored)) {
      if (openBeams === 0) break;
      const parent = (before[index] as Beam).sequence;
      const { distribution } = scored[index] as ScoredBeam;
      const sequence = parent.fork();
      const token = distribution.support[choice] as number;
      sequence.take(token, logprobAt(distribution, choice), parent.alternatives(distribution));
      const beam: Beam = { sequence, parent, sum, distribution: null };
      const end = sequence.ended ? sequence.finish().finishReason : null;
      if (end !== 'stop') openBeams--;
      if (end === null) next.push(beam);
      else if (end === 'length' || rank < this.width) {
        this.#add(beam);
        completed.add(parent);
      }
      rank++;
    }
    return next;
  }

  /** Adds a found reply. Its score does not count an end token. */
  #add({ sequence, sum }: Beam): void {
    const { tokens, finishReason, stop } = sequence.finish();
    const length = finishReason === 'stop' && stop === null ? tokens.length - 1 : tokens.length;
    this.#found.add(sequence, this.#penalty.score(sum, length));
  }

  #cannotWin({ sequence, sum }: Beam): boolean {
    const length = sequence.tokens.length - sequence.promptLength;
    const { worst } = this.#found;
    return worst !== null && this.#penalty.bound(sum, length) <= worst;
  }
}

interface ScoredBeam {
  /** Sum of its log-probabilities. */
  sum: number;
  distribution: Distribution;
}

/** One more token after one of the beams. */
interface Candidate {
  beam: number;
  /** Index in the support of the beam's distribution. */
  index: number;
  sum: number;
}

/**
 * Yields every token that may follow a beam, the largest sum first; among equals the earlier beam, then the lower
 * token. Leaves out tokens whose probability is 0 or NaN. Sorts lazily, because a search takes a few of thousands.
 */
export function* candidatesOf(beams: readonly ScoredBeam[]): Generator<Candidate> {
  const heads = beams.map((_, beam) => bestAfter(beams, beam, null));
  for (;;) {
    let best: Candidate | null = null;
    for (const head of heads) if (head && (!best || head.sum > best.sum)) best = head;
    if (!best) return;
    heads[best.beam] = bestAfter(beams, best.beam, best);
    yield best;
  }
}

/** The beam's best candidate after `last`. */
function bestAfter(beams: readonly ScoredBeam[], beam: number, last: Candidate | null): Candidate | null {
  const { sum, distribution } = beams[beam] as ScoredBeam;
  const limit = last ? logprobAt(distribution, last.index) : Number.POSITIVE_INFINITY;
  let found = -1;
  let largest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < distribution.support.length; index++) {
    const value = logprobAt(distribution, index);
    if (!(value > largest && value <= limit)) continue;
    if (value === limit && last && index <= last.index) continue;
    found = index;
    largest = value;
  }
  return found < 0 ? null : { beam, index: found, sum: sum + largest };
}

/** Scores the replies of a search by their sum of log-probabilities and their length. */
export class LengthPenalty {
  readonly #exponent: number;
  readonly #maxTokens: number;

  /** `maxTokens`: the largest number of tokens a reply can have. */
  constructor(exponent: number, maxTokens: number) {
    this.#exponent = exponent;
    this.#maxTokens = maxTokens;
  }

  /** sum / tokens ^ exponent. An empty reply counts as one token, because 0 ^ exponent may be 0 or infinite. */
  score(sum: number, tokens: number): number {
    return sum === 0 ? 0 : sum / Math.max(1, tokens) ** this.#exponent;
  }

  /**
   * The best score that a beam of `tokens` tokens with this sum can reach. No log-probability is above 0, so the sum
   * stays the same at best, when every further token is certain. The final length m is between `tokens` and `maxTokens`.
   * Since sum <= 0, sum / m ^ exponent rises with m for an exponent above 0, is constant for 0, and falls with m below
   * 0. So the bound is the score at the longest length or at the current one (the end token does not count). Without
   * knowing the model there is no tighter bound.
   */
  bound(sum: number, tokens: number): number {
    return this.score(sum, this.#exponent > 0 ? this.#maxTokens : tokens);
  }
}

/** The best found replies, best first; among equals the one found first. */
export class BestReplies<Reply> {
  readonly #width: number;
  readonly #kept: { reply: Reply; score: number }[] = [];

  constructor(width: number) {
    this.#width = width;
  }

  get replies(): Reply[] {
    return this.#kept.map(({ reply }) => reply);
  }

  /** The score that a reply must beat to be kept; null while fewer than `width` are kept. */
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
