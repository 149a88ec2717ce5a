import type { Architecture } from '../weights/architecture.ts';
import type { Decoder } from './decoder.ts';
import { blockLength, PrefixCache } from './prefix-cache.ts';
import type { Sequence } from './sequence.ts';

/** Largest attention score tensor of one run, in elements: bounds memory for long prompts. */
const largestScores = 4_000_000;

/**
 * The sequences that one set of weights is sampling. New ones join between steps and ended ones leave (continuous
 * batching); slot i of the decoder's cache belongs to the i-th active sequence.
 */
export class Pool {
  readonly #decoder: Decoder;
  readonly #architecture: Architecture;
  readonly #largestBatch: number;
  readonly #prefixes: PrefixCache;
  readonly #waiting: Sequence[] = [];
  readonly #active: Sequence[] = [];
  /** For each prompt, an active sequence that has it. */
  readonly #byPrompt = new Map<string, Sequence>();

  constructor(
    decoder: Decoder,
    architecture: Architecture,
    { largestBatch, prefixCacheBytes }: { largestBatch: number; prefixCacheBytes: number },
  ) {
    this.#decoder = decoder;
    this.#architecture = architecture;
    this.#largestBatch = largestBatch;
    this.#prefixes = new PrefixCache({ blockSize: decoder.cache.blockSize, limitBytes: prefixCacheBytes });
  }

  get idle(): boolean {
    return this.#waiting.length === 0 && this.#active.length === 0;
  }

  add(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /** One step of every active sequence, and the prompts of new ones. Returns the sequences that moved. */
  async step(): Promise<Sequence[]> {
    const running = this.#active.length;
    const settled = this.#takeSettled();
    const { leaders, followers } = this.#admit();
    if (running > 0) await this.#advance(0, running);
    if (leaders > 0) await this.#advance(running, leaders);
    if (followers.size > 0) {
      for (const [slot, leader] of followers) this.#follow(slot, leader);
      await this.#advance(running + leaders, followers.size);
    }
    const moved = [...settled, ...this.#active];
    for (let slot = this.#active.length - 1; slot >= 0; slot--)
      if (this.#active[slot]?.ended) this.#finish(slot);
    if (this.#active.length === 0) this.#decoder.cache.clear();
    return moved;
  }

  async close(): Promise<void> {
    await this.#decoder.close();
  }

  /** Takes out the waiting sequences that have ended already: cancelled, or with nothing left to decide. */
  #takeSettled(): Sequence[] {
    const settled = this.#waiting.filter(({ ended }) => ended);
    if (settled.length > 0)
      this.#waiting.splice(0, this.#waiting.length, ...this.#waiting.filter(({ ended }) => !ended));
    return settled;
  }

  /**
   * Gives waiting sequences their slots: first those whose prompts are to be computed (`leaders`), then those with
   * the same prompt as one of them or of one that runs, which take its keys and values over: a group's rollouts
   * share their prompt.
   */
  #admit(): { leaders: number; followers: Map<number, Sequence> } {
    const admitted = this.#waiting.splice(0, this.#largestBatch - this.#active.length);
    const first = this.#active.length;
    const following: [Sequence, Sequence][] = [];
    for (const sequence of admitted) {
      const known = this.#byPrompt.get(promptKey(sequence));
      if (known) following.push([sequence, known]);
      else {
        this.#byPrompt.set(promptKey(sequence), sequence);
        this.#active.push(sequence);
      }
    }
    const leaders = this.#active.length - first;
    const followers = new Map<number, Sequence>();
    for (const [sequence, leader] of following) {
      followers.set(this.#active.length, leader);
      this.#active.push(sequence);
    }
    this.#reserve(first);
    for (let slot = first; slot < first + leaders; slot++) this.#restore(slot);
    return { leaders, followers };
  }

  /** Makes room for every token that waits to be computed; the first `used` slots hold something already. */
  #reserve(used: number): void {
    const longest = this.#active.reduce((length, { tokens }) => Math.max(length, tokens.length), 1);
    this.#decoder.cache.reserve(this.#active.length, longest, used);
  }

  /** Puts what the prefix cache knows of a new sequence's prompt into its slot; the last token is left to run. */
  #restore(slot: number): void {
    const sequence = this.#active[slot] as Sequence;
    const blocks = this.#prefixes.find(sequence.tokens.slice(0, sequence.promptLength));
    for (const [index, block] of blocks.entries())
      this.#decoder.cache.copyBlockIn(slot, index * blockLength, block);
    const length = Math.min(blocks.length * blockLength, sequence.promptLength - 1);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  #follow(slot: number, leader: Sequence): void {
    const sequence = this.#active[slot] as Sequence;
    const length = Math.min(sequence.promptLength - 1, leader.computed);
    this.#decoder.cache.copySlot(this.#active.indexOf(leader), slot, length);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  /** Computes all that waits in the slots from `first`, in chunks that fit, and samples a token for each. */
  async #advance(first: number, count: number): Promise<void> {
    this.#reserve(this.#active.length);
    const sequences = this.#active.slice(first, first + count);
    const targets = sequences.map(({ tokens }) => tokens.length);
    const perStep = count * this.#architecture.heads * this.#decoder.cache.width;
    const largestSteps = Math.max(1, Math.floor(largestScores / perStep));
    for (;;) {
      const chunks = sequences.map(({ tokens, computed, ended }, row) => ({
        tokens,
        start: computed,
        end: ended ? computed : Math.min(targets[row] as number, computed + largestSteps),
      }));
      if (chunks.every(({ start, end }) => start === end)) return;
      const logits = await this.#decoder.run(first, chunks);
      sequences.forEach((sequence, row) => {
        const { start, end } = chunks[row] as { start: number; end: number };
        sequence.computed = end;
        if (end > start && end === targets[row])
          sequence.sample(logits, row * this.#architecture.vocabularySize);
      });
    }
  }

  #finish(slot: number): void {
    const sequence = this.#active[slot] as Sequence;
    this.#prefixes.add(sequence.tokens.slice(0, sequence.computed), (start, target) =>
      this.#decoder.cache.copyBlockOut(slot, start, target),
    );
    if (this.#byPrompt.get(promptKey(sequence)) === sequence) this.#byPrompt.delete(promptKey(sequence));
    this.#release(slot);
  }

  /** Frees a slot; the last active sequence moves into it. */
  #release(slot: number): void {
    const last = this.#active.length - 1;
    const moving = this.#active[last] as Sequence;
    if (slot !== last) {
      this.#decoder.cache.copySlot(last, slot, moving.computed);
      this.#active[slot] = moving;
    }
    this.#active.length = last;
  }
}

function promptKey({ tokens, promptLength }: Sequence): string {
  return tokens.slice(0, promptLength).join();
}
