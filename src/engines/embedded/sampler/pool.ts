import { FairQueue } from '../../../util/fair-queue.ts';
import { EngineError } from '../../engine.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Answer } from './answer.ts';
import type { Decoder } from './decoder.ts';
import { DeferredMasking } from './deferred-masking.ts';
import { PrefixCache, type PrefixMemory } from './prefix-cache.ts';
import { PromptScorer, type PromptScores } from './prompt-scores.ts';
import { Prompts } from './prompts.ts';
import { Runs } from './runs.ts';
import type { SampledAnswer } from './sequence.ts';
import { type Occupant, Slots } from './slots.ts';

/**
 * Most tokens of prompts in a step beside running replies, which wait for them: about a second's on two cores. Fewer would
 * read the weights too often.
 */
const maxTokensBeside = ({ layers, width, mlpWidth }: Architecture) =>
  Math.max(256, Math.floor(1e10 / (layers * width * mlpWidth)));

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
  /** The answers whose prompts are computed. */
  readonly #running = new Set<SampledAnswer>();
  readonly #prompts: Prompts;
  readonly #runs: Runs;
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
    this.#runs = new Runs(decoder, architecture, this.#slots, this.#deferredMasking);
    this.#prompts = new Prompts(this.#slots, this.#runs, this.#running);
    this.#scorer = new PromptScorer(decoder.twin(), {
      vocabularySize: architecture.vocabularySize,
      overdueMs,
    });
  }

  get idle(): boolean {
    const started = this.#prompts.count + this.#slots.count;
    return this.#waiting.count === 0 && started === 0 && this.#scorer.idle;
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
   * Takes one step of all running answers, except those that wait for a heavy constraint, and computes prompts of new
   * ones, as many tokens as a step has. Returns the answers that changed. `pools`: how many pools, with this one, step in
   * turn. Default 1.
   */
  async step(pools = 1): Promise<Answer[]> {
    const startedAt = performance.now();
    const changed = new Set<Answer>(this.#removeEnded());
    const isAlone = this.#running.size === 0;
    await this.#computeRunning();
    this.#admit();
    await this.#prompts.compute(isAlone ? Number.POSITIVE_INFINITY : maxTokensBeside(this.#architecture));
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
    answers.push(...this.#prompts.removeEnded());
    for (let slot = this.#slots.count - 1; slot >= 0; slot--) {
      const { sequence, answer } = this.#slots.at(slot);
      if (!answer.ended) continue;
      if (sequence === answer) this.#slots.storePrefix(slot);
      this.#slots.release(slot);
    }
    return answers;
  }

  /** Lets waiting answers go on to their prompts, as many as there are slots, when those before them are through. */
  #admit(): void {
    if (this.#prompts.count > 0) return;
    let free = this.#largestBatch;
    for (const { width } of this.#running) free -= width;
    this.#prompts.add(this.#waiting.admit(free).map(toOccupant));
  }

  /** Computes the pending tokens of all running answers, and chooses the next token of each. */
  async #computeRunning(): Promise<void> {
    const targets = this.#slots.occupants.map(({ sequence, answer }) =>
      this.#running.has(answer) ? sequence.tokens.length : sequence.computed,
    );
    await this.#runs.computeAll(0, targets);
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
