import { FairQueue } from '../../../util/fair-queue.ts';
import { EngineError } from '../../engine.ts';
import { copyRow, type LogitRows } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Decoder, Wanted } from './decoder.ts';
import { DeferredMasking } from './deferred-masking.ts';
import { PrefixCache, type PrefixMemory } from './prefix-cache.ts';
import { PromptScorer, type PromptScores } from './prompt-scores.ts';
import type { Answer, SampledAnswer } from './sequence.ts';
import { type Occupant, Slots } from './slots.ts';

/**
 * Most elements that the tokens of one run need (`Decoder.elementsPerToken`): bounds the memory of long
 * prompts. A large model may have more, as many as a quarter of an MLP matrix of each layer, so that each reading of its
 * weights computes enough tokens.
 */
const maxElements = ({ layers, width, mlpWidth }: Architecture) =>
  Math.max(4_000_000, (layers * width * mlpWidth) / 4);

/** A request that has waited this long goes before all priorities, so that no request waits forever. */
const overdueMs = 300_000;

/** Shortest time for deferred masking in each step, in milliseconds: see `DeferredMasking`. */
const minMaskingMs = 10;

/** An answer that waits for its slots. */
type Waiting = Omit<Occupant, 'sequence' | 'prompt'>;

/** Fields of `GenerateRequest` that decide when a request starts and what it shares. */
interface Scheduling {
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
  #mayHaveEnded = false;
  /** The answers that have slots. */
  readonly #running = new Set<SampledAnswer>();
  readonly #deferredMasking = new DeferredMasking();

  constructor(
    decoder: Decoder,
    architecture: Architecture,
    { largestBatch, prefixes }: { largestBatch: number; prefixes: PrefixMemory },
  ) {
    this.#decoder = decoder;
    this.#architecture = architecture;
    const { cache } = decoder;
    this.#largestBatch = Math.min(largestBatch, cache.mostSlots);
    this.#prefixes = new PrefixCache({ blockSize: cache.blockSize, memory: prefixes });
    this.#slots = new Slots(cache, this.#prefixes);
    this.#scorer = new PromptScorer(decoder.twin(), {
      vocabularySize: architecture.vocabularySize,
      overdueMs,
    });
  }

  get idle(): boolean {
    return this.#waiting.count === 0 && this.#slots.count === 0 && this.#scorer.idle;
  }

  /** Queues an answer until it has its slots. Throws an `EngineError` if it needs more than there are. */
  add(answer: SampledAnswer, { priority, cacheSalt, tenant = '' }: Scheduling): void {
    if (answer.width > this.#largestBatch)
      throw new EngineError(
        'search_too_wide',
        `A beam search of width ${answer.width} needs ${answer.width} rows, and the engine has ${this.#largestBatch}. Use a smaller width or a larger largestBatch.`,
      );
    if (answer.ended) this.#mayHaveEnded = true;
    this.#waiting.add({ answer, salt: cacheSalt, tenant }, { priority, slots: answer.width, tenant });
  }

  cancel(answer: Answer): void {
    answer.cancel();
    this.#mayHaveEnded = true;
  }

  /** Queues the scoring of a prompt: one chunk in each step, alongside all sampling. */
  score(scores: PromptScores, order?: Partial<Pick<Scheduling, 'priority' | 'tenant'>>): void {
    this.#scorer.add(scores, order);
  }

  /**
   * Takes one step of all answers in slots, except those that wait for a heavy constraint, and computes the prompts of
   * new ones. Returns the answers that changed. `pools`: how many pools, with this one, step in turn. Default 1.
   */
  async step(pools = 1): Promise<Answer[]> {
    const startedAt = performance.now();
    const changed = new Set<Answer>(this.#removeEnded());
    const before = this.#slots.count;
    const { leaders, followers } = this.#admit();
    if (before > 0) await this.#compute(0, before);
    if (leaders > 0) await this.#compute(before, leaders);
    if (followers.size > 0) {
      for (const [slot, leader] of followers) this.#slots.copyPrompt(slot, leader);
      await this.#compute(before + leaders, followers.size);
    }
    this.#deferredMasking.run(Math.max(minMaskingMs / pools, performance.now() - startedAt));
    for (const answer of this.#running) {
      changed.add(answer);
      this.#advance(answer);
    }
    for (const answer of this.#removeEnded()) changed.add(answer);
    if (this.#slots.count === 0) {
      this.#decoder.cache.clear();
      this.#deferredMasking.clear();
    }
    if (!this.#scorer.idle) for (const scores of await this.#scorer.step()) changed.add(scores);
    return [...changed];
  }

  async close(): Promise<void> {
    this.#prefixes.clear();
    await this.#decoder.close();
  }

  /** Removes the answers that have ended. Replies stay in the prefix cache. */
  #removeEnded(): Answer[] {
    const ended = this.#mayHaveEnded ? this.#waiting.remove(({ answer }) => answer.ended) : [];
    this.#mayHaveEnded = false;
    const answers = ended.map(({ answer }) => answer);
    for (const answer of this.#running) {
      if (!answer.ended) continue;
      this.#running.delete(answer);
      answers.push(answer);
    }
    for (let slot = this.#slots.count - 1; slot >= 0; slot--) {
      const { sequence, answer } = this.#slots.at(slot);
      if (!answer.ended) continue;
      if (sequence === answer) this.#slots.storePrefix(slot);
      this.#slots.release(slot);
    }
    return answers;
  }

  /**
   * Assigns slots to waiting answers. The first of them (`leaders`) compute their prompts. The others (`followers`)
   * have the same prompt and salt as a leader or a running answer and copy its keys and values: the rollouts of a group
   * share their prompt.
   */
  #admit(): { leaders: number; followers: Map<number, Occupant> } {
    const followers = new Map<number, Occupant>();
    let free = this.#largestBatch;
    for (const { width } of this.#running) free -= width;
    const admitted = this.#waiting.admit(free).map(toOccupant);
    if (admitted.length === 0) return { leaders: 0, followers };
    const first = this.#slots.count;
    const known = new Map(this.#slots.occupants.map((occupant) => [occupant.prompt, occupant]));
    const following: [Occupant, Occupant][] = [];
    for (const occupant of admitted) {
      this.#running.add(occupant.answer);
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
    for (let slot = first; slot < first + leaders; slot++) this.#slots.loadPrefix(slot);
    return { leaders, followers };
  }

  /** Computes the pending tokens of `count` slots from `first`, in chunks, and chooses the next token of each. */
  async #compute(first: number, count: number): Promise<void> {
    this.#slots.reserve(this.#slots.count);
    const occupants = this.#slots.occupants.slice(first, first + count);
    const targets = occupants.map(({ sequence }) => sequence.tokens.length);
    const perStep = count * this.#decoder.elementsPerToken;
    const maxSteps = Math.max(1, Math.floor(maxElements(this.#architecture) / perStep));
    for (;;) {
      const chunks = occupants.map(({ sequence: { tokens, computed }, answer }, row) => {
        const end = answer.ended ? computed : Math.min(targets[row] as number, computed + maxSteps);
        return { tokens, start: computed, end };
      });
      if (chunks.every(({ start, end }) => start === end)) return;
      const wanted = chunks.map(({ start, end }, row): Wanted => {
        const { sequence, answer } = occupants[row] as Occupant;
        return start < end && end === targets[row] ? (answer.draw(sequence) ?? 'logits') : null;
      });
      const { rows, outcomes } = await this.#decoder.step(first, chunks, wanted);
      for (const [row, { end }] of chunks.entries()) {
        const occupant = occupants[row] as Occupant;
        occupant.sequence.computed = end;
        const outcome = outcomes[row] ?? null;
        if (wanted[row] === null || outcome === null) continue;
        if (typeof outcome === 'number') this.#choose(occupant, rows, outcome);
        else occupant.sequence.takeDrawn(outcome);
      }
    }
  }

  /** Chooses the next token, or defers it when the tokens its constraint allows are not known yet. */
  #choose({ sequence, answer, tenant }: Occupant, rows: LogitRows, row: number): void {
    if (sequence.prepare(() => true)) answer.choose(rows, row, sequence);
    else this.#deferredMasking.add(tenant, { sequence, answer, logits: copyRow(rows, row) });
  }

  /** Takes a step of a search, and stores beams that led to a reply in the prefix cache. */
  #advance(answer: SampledAnswer): void {
    if (answer.ended || this.#deferredMasking.holds(answer)) return;
    const next = answer.advance();
    if (!next) return;
    for (const [beam, slot] of this.#slots.slotsOf(answer))
      if (next.completed.has(beam)) this.#slots.storePrefix(slot);
    this.#slots.replaceBeams(answer, next.beams);
  }
}

/** Builds the prompt's key only now, not when the request arrives: it is long, and only running answers need it. */
function toOccupant({ answer, salt, tenant }: Waiting): Occupant {
  const sequence = answer.root;
  const prompt = `${salt === null ? '' : `salt ${salt}`}:${sequence.tokens.slice(0, sequence.promptLength)}`;
  return { sequence, answer, salt, tenant, prompt };
}
