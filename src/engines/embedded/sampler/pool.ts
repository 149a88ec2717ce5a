import { FairQueue } from '../../../util/fair-queue.ts';
import { EngineError } from '../../engine.ts';
import type { BeamSearch } from '../extensions/beam-search.ts';
import type { PromptScores } from '../extensions/prompt-scores.ts';
import { PromptScorer } from '../extensions/prompt-scores.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Decoder } from './decoder.ts';
import { DeferredMasking } from './deferred-masking.ts';
import { PrefixCache, type PrefixMemory } from './prefix-cache.ts';
import type { Sequence } from './sequence.ts';
import { type Occupant, Slots } from './slots.ts';

/** Largest attention score tensor of one run, in elements: bounds the memory of long prompts. */
const largestScores = 4_000_000;

/** A request that has waited this long goes before all priorities, so that no request waits forever. */
const overdueMs = 300_000;

/** Shortest time for deferred masking in each step, in milliseconds: see `DeferredMasking`. */
const shortestDeliberationMs = 10;

/** An answer in progress: a reply, the replies of a search, or the scores of a prompt. */
export type Answer = Sequence | BeamSearch | PromptScores;

/** A request that waits for its slots. */
type Waiting = Omit<Occupant, 'prompt'>;

/** Fields of `GenerateRequest` that decide when a request starts and what it shares. */
export interface Scheduling {
  priority: number;
  cacheSalt: string | null;
  tenant?: string;
}

/**
 * The answers in progress for one set of weights. New ones join between steps and ended ones leave (continuous
 * batching). The decoder's next run no longer includes an answer that has ended or was cancelled.
 */
export class Pool {
  readonly #decoder: Decoder;
  readonly #architecture: Architecture;
  readonly #largestBatch: number;
  readonly #prefixes: PrefixCache;
  readonly #slots: Slots;
  readonly #scorer: PromptScorer;
  readonly #waiting = new FairQueue<Waiting>({ overdueMs });
  /** Whether a waiting answer may have ended. Only then are they searched, as there may be thousands. */
  #mayBeOver = false;
  readonly #searches = new Set<BeamSearch>();
  readonly #deferredMasking = new DeferredMasking();

  constructor(
    decoder: Decoder,
    architecture: Architecture,
    { largestBatch, prefixes }: { largestBatch: number; prefixes: PrefixMemory },
  ) {
    this.#decoder = decoder;
    this.#architecture = architecture;
    this.#largestBatch = largestBatch;
    const { cache } = decoder;
    this.#prefixes = new PrefixCache({ blockSize: cache.blockSize, memory: prefixes });
    this.#slots = new Slots(cache, this.#prefixes);
    this.#scorer = new PromptScorer(decoder.twin(), architecture.vocabularySize);
  }

  get idle(): boolean {
    return this.#waiting.count === 0 && this.#slots.count === 0 && this.#scorer.idle;
  }

  add(sequence: Sequence, standing: Scheduling): void {
    this.#wait(sequence, null, standing);
  }

  /** Queues a search until there is a slot for each beam. Throws an `EngineError` if there are too few slots. */
  search(search: BeamSearch, root: Sequence, standing: Scheduling): void {
    if (search.width > this.#largestBatch)
      throw new EngineError(
        'search_too_wide',
        `a beam search of width ${search.width} needs as many replies side by side, and the engine samples at most ${this.#largestBatch}: take a smaller width, or give the engine a larger largestBatch`,
      );
    this.#wait(root, search, standing);
  }

  /** Ends an answer that is no longer needed. */
  cancel(answer: Answer): void {
    answer.cancel();
    this.#mayBeOver = true;
  }

  /** Queues the scoring of a prompt. Prompts are scored in order, one chunk in each step, beside all sampling. */
  score(scores: PromptScores): void {
    this.#scorer.add(scores);
  }

  /**
   * Takes one step of all answers in slots, except those that wait for a heavy constraint, and computes the prompts of
   * new ones. Returns the answers that changed. `pools`: how many pools, with this one, step in turn. Default 1.
   */
  async step(pools = 1): Promise<Answer[]> {
    const began = performance.now();
    const moved = new Set(this.#dismiss());
    const running = this.#slots.count;
    const { leaders, followers } = this.#admit();
    if (running > 0) await this.#advance(0, running);
    if (leaders > 0) await this.#advance(running, leaders);
    if (followers.size > 0) {
      for (const [slot, leader] of followers) this.#slots.follow(slot, leader);
      await this.#advance(running + leaders, followers.size);
    }
    this.#deferredMasking.goOn(Math.max(shortestDeliberationMs / pools, performance.now() - began));
    for (const { sequence, search } of this.#slots.occupants) moved.add(search ?? sequence);
    for (const search of this.#searches)
      if (!search.ended && !this.#deferredMasking.holds(search)) this.#branch(search);
    for (const answer of this.#dismiss()) moved.add(answer);
    if (this.#slots.count === 0) {
      this.#decoder.cache.clear();
      this.#deferredMasking.clear();
    }
    if (!this.#scorer.idle) for (const scores of await this.#scorer.step()) moved.add(scores);
    return [...moved];
  }

  async close(): Promise<void> {
    this.#prefixes.clear();
    await this.#decoder.close();
  }

  #wait(
    sequence: Sequence,
    search: BeamSearch | null,
    { priority, cacheSalt: salt, tenant = '' }: Scheduling,
  ): void {
    const waiting = { sequence, search, salt, tenant };
    if (isOver(waiting)) this.#mayBeOver = true;
    this.#waiting.add(waiting, { priority, slots: search?.width ?? 1, tenant });
  }

  /** Removes the answers that have ended. */
  #dismiss(): Answer[] {
    const over = this.#mayBeOver ? this.#waiting.remove(isOver) : [];
    this.#mayBeOver = false;
    const ended = over.map(({ sequence, search }): Answer => search ?? sequence);
    for (const search of this.#searches) {
      if (!search.ended) continue;
      this.#slots.succeed(search, []);
      this.#searches.delete(search);
      ended.push(search);
    }
    for (let slot = this.#slots.count - 1; slot >= 0; slot--) {
      const { sequence, search } = this.#slots.at(slot);
      if (search || !sequence.ended) continue;
      this.#slots.keep(slot);
      this.#slots.release(slot);
      ended.push(sequence);
    }
    return ended;
  }

  /**
   * Assigns slots to waiting answers. The first of them (`leaders`) compute their prompts. The others (`followers`)
   * have the same prompt and salt as a leader or a running answer and copy its keys and values: the rollouts of a group
   * share their prompt.
   */
  #admit(): { leaders: number; followers: Map<number, Occupant> } {
    const followers = new Map<number, Occupant>();
    const admitted = this.#waiting.admit(this.#largestBatch - this.#taken()).map(toOccupant);
    if (admitted.length === 0) return { leaders: 0, followers };
    const first = this.#slots.count;
    const known = new Map(this.#slots.occupants.map((occupant) => [occupant.prompt, occupant]));
    const following: [Occupant, Occupant][] = [];
    for (const occupant of admitted) {
      if (occupant.search) this.#searches.add(occupant.search);
      const leader = known.get(occupant.prompt);
      if (leader) following.push([occupant, leader]);
      else {
        known.set(occupant.prompt, occupant);
        this.#slots.append(occupant);
      }
    }
    const leaders = this.#slots.count - first;
    for (const [occupant, leader] of following) followers.set(this.#slots.append(occupant), leader);
    this.#slots.reserve(first);
    for (let slot = first; slot < first + leaders; slot++) this.#slots.restore(slot);
    return { leaders, followers };
  }

  /** Number of slots in use, counting a search with its full width. */
  #taken(): number {
    let taken = 0;
    for (const { search } of this.#slots.occupants) if (!search) taken++;
    for (const { width } of this.#searches) taken += width;
    return taken;
  }

  /** Computes the pending tokens of `count` slots from `first`, in chunks, and chooses the next token of each. */
  async #advance(first: number, count: number): Promise<void> {
    this.#slots.reserve(this.#slots.count);
    const occupants = this.#slots.occupants.slice(first, first + count);
    const targets = occupants.map(({ sequence }) => sequence.tokens.length);
    const perStep = count * this.#architecture.heads * this.#decoder.cache.width;
    const largestSteps = Math.max(1, Math.floor(largestScores / perStep));
    for (;;) {
      const chunks = occupants.map((occupant, row) => {
        const { tokens, computed } = occupant.sequence;
        const end = isOver(occupant) ? computed : Math.min(targets[row] as number, computed + largestSteps);
        return { tokens, start: computed, end };
      });
      if (chunks.every(({ start, end }) => start === end)) return;
      const logits = await this.#decoder.run(first, chunks);
      occupants.forEach((occupant, row) => {
        const { sequence } = occupant;
        const { start, end } = chunks[row] as { start: number; end: number };
        sequence.computed = end;
        if (start === end || end !== targets[row]) return;
        this.#choose(occupant, logits, row * this.#architecture.vocabularySize);
      });
    }
  }

  /** Chooses the next token, or defers it when the tokens its constraint allows are not known yet. */
  #choose({ sequence, search, tenant }: Occupant, logits: Float32Array, offset: number): void {
    if (!sequence.prepare(always))
      this.#deferredMasking.add(tenant, {
        sequence,
        search,
        logits: logits.slice(offset, offset + this.#architecture.vocabularySize),
      });
    else if (search) search.weigh(sequence, logits, offset);
    else sequence.sample(logits, offset);
  }

  /** Takes a step of a search, and stores beams that led to a reply in the prefix cache. */
  #branch(search: BeamSearch): void {
    const slots = this.#slots.slotsOf(search);
    const { beams, fulfilled } = search.advance();
    for (const [beam, slot] of slots) if (fulfilled.has(beam)) this.#slots.keep(slot);
    this.#slots.succeed(search, beams);
  }
}

/** Builds the prompt's key only now, not when the request arrives: it is long, and only running answers need it. */
function toOccupant({ sequence, search, salt, tenant }: Waiting): Occupant {
  const prompt = `${salt === null ? '' : `salt ${salt}`}:${sequence.tokens.slice(0, sequence.promptLength)}`;
  return { sequence, search, salt, tenant, prompt };
}

const always = () => true;

function isOver({ sequence, search }: Waiting): boolean {
  return search ? search.ended : sequence.ended;
}
