import type { Generation } from '../../engine.ts';
import type { Distribution } from '../distribution.ts';
import { type Candidate, candidatesOf, type Weighed } from './candidates.ts';
import { Hypotheses, LengthPenalty, scoredLength } from './hypotheses.ts';
import type { Sequence } from './sequence.ts';

export interface BeamSearchOptions {
  width: number;
  lengthPenalty: number;
  maxTokens: number;
}

/** A beam that lives on, and the beam of the step before whose keys and values it continues. */
export interface Continuation {
  sequence: Sequence;
  parent: Sequence;
}

interface Beam extends Continuation {
  /** Sum of the reply's log-probabilities. */
  sum: number;
  distribution: Distribution | null;
}

/**
 * A search for the likeliest replies. All beams take one token a step, and behind it those that are forced, which
 * cost nothing. The tokens that may follow the beams are put in order by the sum of log-probabilities that they lead
 * to. Those that end a reply are found replies where they are among the step's `width` best, so that a width of 1
 * goes the greedy way; of the others the `width` best live on. Beams at the token limit are found replies too.
 * The search ends when `width` replies are found and no beam can still come to a better score than the worst of them
 * (`LengthPenalty.bound`), or when no beam lives.
 *
 * Equal sums go by the order of the beams, then of the tokens, and equal scores by the order in which they were
 * found: the same request finds the same replies.
 */
export class BeamSearch {
  readonly width: number;
  readonly #penalty: LengthPenalty;
  readonly #found: Hypotheses<Sequence>;
  #beams: Beam[] = [];
  #cancelled = false;
  #failure: unknown;

  /** `root`: the reply before its first decision. */
  constructor(root: Sequence, { width, lengthPenalty, maxTokens }: BeamSearchOptions) {
    this.width = width;
    this.#penalty = new LengthPenalty(lengthPenalty, maxTokens);
    this.#found = new Hypotheses(width);
    const beam: Beam = { sequence: root, parent: root, sum: 0, distribution: null };
    if (root.ended) this.#add(beam);
    else this.#beams.push(beam);
  }

  get ended(): boolean {
    return this.#cancelled || this.#failure !== undefined || this.#beams.length === 0;
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

  /** Takes the logits after the last token of one of the beams. */
  weigh(sequence: Sequence, logits: Float32Array, offset: number): void {
    const beam = this.#beams.find((one) => one.sequence === sequence);
    if (this.ended || !beam) return;
    try {
      beam.distribution = sequence.next(logits, offset);
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * One step, once every beam has been weighed. Returns the beams that live on, and the beams of the step before
   * that led to a reply.
   */
  advance(): { beams: Continuation[]; fulfilled: Set<Sequence> } {
    const before = this.#beams;
    const fulfilled = new Set<Sequence>();
    try {
      this.#beams = this.#choose(before, fulfilled);
    } catch (error) {
      this.#fail(error);
    }
    for (const { sequence } of before) sequence.dispose();
    if (this.#beams.every((beam) => this.#hopeless(beam))) this.#abandon();
    return { beams: this.ended ? [] : this.#beams, fulfilled };
  }

  /** The replies found, best first. */
  finish(): Generation[] {
    return this.#found.replies.map((sequence) => sequence.finish());
  }

  dispose(): void {
    this.#abandon();
    for (const sequence of this.#found.replies) sequence.dispose();
  }

  /** The beams of the next step; replies that are found on the way are kept. */
  #choose(before: readonly Beam[], fulfilled: Set<Sequence>): Beam[] {
    const next: Beam[] = [];
    const weighed = before.map(toWeighed);
    let places = this.width;
    let rank = 0;
    for (const candidate of candidatesOf(weighed)) {
      if (places === 0) break;
      const beam = follow((before[candidate.beam] as Beam).sequence, candidate, weighed);
      const { sequence } = beam;
      const end = sequence.ended ? sequence.finish().finishReason : null;
      if (end !== 'stop') places--;
      if (end === null) next.push(beam);
      else if (end === 'length' || rank < this.width) {
        this.#add(beam);
        fulfilled.add(beam.parent);
      } else sequence.dispose();
      rank++;
    }
    return next;
  }

  #add({ sequence, sum }: Beam): void {
    this.#found.add(sequence, this.#penalty.score(sum, scoredLength(sequence.finish())));
  }

  #hopeless({ sequence, sum }: Beam): boolean {
    const length = sequence.tokens.length - sequence.promptLength;
    const { worst } = this.#found;
    return worst !== null && this.#penalty.bound(sum, length) <= worst;
  }

  #fail(error: unknown): void {
    this.#failure ??= error ?? new Error('the search failed');
  }

  #abandon(): void {
    for (const { sequence } of this.#beams) sequence.dispose();
    this.#beams = [];
  }
}

function follow(parent: Sequence, { beam, index, sum }: Candidate, weighed: readonly Weighed[]): Beam {
  const { distribution } = weighed[beam] as Weighed;
  const { support, logprobs } = distribution;
  const sequence = parent.fork();
  sequence.take(support[index] as number, logprobs[index] as number, parent.alternatives(distribution));
  return { sequence, parent, sum, distribution: null };
}

function toWeighed({ sum, distribution }: Beam): Weighed {
  if (!distribution) throw new Error('a beam has not been weighed');
  return { sum, distribution };
}
