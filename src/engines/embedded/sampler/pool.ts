import { FairQueue } from '../../../util/fair-queue.ts';
import { EngineError } from '../../engine.ts';
import { copyRow, type LogitRows } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Answer } from './answer.ts';
import type { Decoder, Wanted } from './decoder.ts';
import { DeferredMasking } from './deferred-masking.ts';
import { PrefixCache, type PrefixMemory } from './prefix-cache.ts';
import { PromptScorer, type PromptScores } from './prompt-scores.ts';
import type { SampledAnswer } from './sequence.ts';
import { type Occupant, Slots } from './slots.ts';

/**
 * Most elements that the tokens of one run need (`Decoder.elementsPerToken`): bounds the memory of long
 * prompts. A large model may have more, as many as a quarter of an MLP matrix of each layer, so that each reading of its
 * weights computes enough tokens.
 */
const maxElements = ({ layers, width, mlpWidth }: Architecture) =>
  Math.max(4_000_000, (layers * width * mlpWidth) / 4);

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

/** An answer that takes over the computed prompt of another. */
interface Follower {
  occupant: Occupant;
  leader: Occupant;
}

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
  /** Whose prompts come next, in order. The first has a slot if its prompt is too long for one step and was begun. */
  #prompting: Occupant[] = [];
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
    const started = this.#prompting.length + this.#slots.count;
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
    await this.#compute(0, this.#slots.count);
    this.#admit();
    await this.#computePrompts(isAlone ? Number.POSITIVE_INFINITY : maxTokensBeside(this.#architecture));
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
    for (const { answer } of this.#prompting) if (answer.ended) answers.push(answer);
    this.#prompting = this.#prompting.filter(({ answer }) => !answer.ended);
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
    if (this.#prompting.length > 0) return;
    let free = this.#largestBatch;
    for (const { width } of this.#running) free -= width;
    this.#prompting = this.#waiting.admit(free).map(toOccupant);
  }

  /**
   * Computes prompts in their order: one that was begun, then as many as fit into the step, or the beginning of one that
   * is too long. Answers with the prompt and salt of another one follow it with a copy of its keys and values: the
   * rollouts of a group share their prompt. `maxTokens`: of the step.
   */
  async #computePrompts(maxTokens: number): Promise<void> {
    let left = maxTokens;
    const [next] = this.#prompting;
    const begun = next ? this.#slots.occupants.indexOf(next) : -1;
    if (begun >= 0) {
      const { sequence, answer } = this.#slots.at(begun);
      const [start, end] = [sequence.computed, sequence.tokens.length];
      await this.#computeChunks(begun, [end], left);
      if (sequence.computed < end) return;
      left -= end - start;
      this.#prompting.shift();
      this.#running.add(answer);
    }
    const first = this.#slots.count;
    const followers = this.#takeThatFit(left);
    const targets = this.#slots.occupants.slice(first).map(({ sequence }) => sequence.tokens.length);
    await this.#computeChunks(first, targets, left);
    await this.#follow(followers);
  }

  /** Gives slots to the next prompts, as many as fit, but to one at least. Returns those that follow another, and whom. */
  #takeThatFit(maxTokens: number): Follower[] {
    const known = new Map(this.#slots.occupants.map((occupant) => [occupant.prompt, occupant]));
    const followers: Follower[] = [];
    const first = this.#slots.count;
    let longest = 0;
    for (let [next] = this.#prompting; next; [next] = this.#prompting) {
      const leader = known.get(next.prompt);
      if (leader) followers.push({ occupant: next, leader });
      else {
        const { sequence, answer } = next;
        const slot = this.#slots.append(next);
        this.#slots.reserve(slot);
        this.#slots.loadPrefix(slot);
        longest = Math.max(longest, sequence.tokens.length - sequence.computed);
        if ((slot + 1 - first) * longest > Math.min(maxTokens, this.#tokensPerRun)) {
          if (slot > first) this.#slots.release(slot);
          break;
        }
        known.set(next.prompt, next);
        this.#running.add(answer);
      }
      this.#prompting.shift();
    }
    return followers;
  }

  /** Computes the last token of prompts whose others are copied from a leader. Those of a cancelled leader wait. */
  async #follow(followers: readonly Follower[]): Promise<void> {
    const first = this.#slots.count;
    const isComputed = ({ occupant: { sequence }, leader }: Follower) =>
      leader.sequence.computed >= sequence.promptLength - 1;
    const copies = followers.filter(isComputed);
    for (const { occupant } of copies) {
      this.#slots.append(occupant);
      this.#running.add(occupant.answer);
    }
    if (copies.length > 0) this.#slots.reserve(first);
    for (const [index, { leader }] of copies.entries()) this.#slots.copyPrompt(first + index, leader);
    await this.#compute(first, copies.length);
    const others = followers.filter((follower) => !copies.includes(follower));
    this.#prompting.unshift(...others.map(({ occupant }) => occupant));
  }

  /** Most tokens of one run. */
  get #tokensPerRun(): number {
    return Math.max(1, Math.floor(maxElements(this.#architecture) / this.#decoder.elementsPerToken));
  }

  /** Computes the pending tokens of the running answers in `count` slots from `first`, and chooses the next token of each. */
  async #compute(first: number, count: number): Promise<void> {
    if (count === 0) return;
    this.#slots.reserve(this.#slots.count);
    const targets = this.#slots.occupants
      .slice(first, first + count)
      .map(({ sequence, answer }) =>
        this.#running.has(answer) ? sequence.tokens.length : sequence.computed,
      );
    while (await this.#computeChunks(first, targets));
  }

  /**
   * Computes the next tokens of slots from `first` in one run, each up to its target, and chooses the token after that.
   * Returns whether there were any.
   */
  async #computeChunks(
    first: number,
    targets: readonly number[],
    maxTokens = Number.POSITIVE_INFINITY,
  ): Promise<boolean> {
    const occupants = this.#slots.occupants.slice(first, first + targets.length);
    const perRun = Math.max(1, Math.floor(this.#tokensPerRun / targets.length));
    const most = Math.min(perRun, Math.floor(maxTokens / targets.length));
    const chunks = occupants.map(({ sequence: { tokens, computed }, answer }, row) => {
      const end = answer.ended ? computed : Math.min(targets[row] as number, computed + most);
      return { tokens, start: computed, end };
    });
    if (chunks.every(({ start, end }) => start === end)) return false;
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
    return true;
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
