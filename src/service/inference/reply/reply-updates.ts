import type { Engine, Generation, GenerationDelta } from '../../../engines/engine.ts';
import { type SampledChat, sampleChoice, searchChoices } from './sample.ts';

/** What is new of one choice. */
interface ReplyUpdate {
  index: number;
  /** Null if it only ended. */
  delta: GenerationDelta | null;
  /** The whole choice, once it has ended. */
  end: Generation | null;
}

/**
 * Shortest time between the deltas of a stream, in milliseconds, unless a choice ends. A chunk for each token would cost
 * more than sampling it.
 */
const intervalMs = 50;

/** With many streams the interval is this long for each of them: they have at most 2000 deltas a second together. */
const intervalOfStreamMs = 0.5;

/** Streams that are being read. */
let streams = 0;

/**
 * Samples the choices of a request and buffers their updates until they are read, the first at once, later ones after
 * `intervalMs`. Unread deltas of a choice are merged, so a slow reader costs no more memory than the tokens.
 */
export class ReplyUpdates {
  /** Unread updates by choice, oldest first. */
  readonly #waiting = new Map<number, ReplyUpdate>();
  #failure: { error: unknown } | null = null;
  /** Number of choices that have not ended. */
  #open: number;
  #wake: () => void = () => {};
  /** Runs while deltas are held back. */
  #interval: NodeJS.Timeout | null = null;

  constructor(engine: Engine, chat: SampledChat, signal: AbortSignal) {
    const { n: choices = 1, use_beam_search: isSearched } = chat.request;
    this.#open = choices;
    const fail = (error: unknown) => {
      this.#failure = { error };
      this.#release();
    };
    if (isSearched) {
      searchChoices(engine, chat, signal).then((found) => {
        this.#open = found.length;
        for (const [index, generation] of found.entries()) this.#finish(index, generation, 0);
        this.#release();
      }, fail);
      return;
    }
    for (let index = 0; index < choices; index++) {
      let sent = 0;
      const onDelta = (delta: GenerationDelta) => {
        sent += delta.tokens.length;
        this.#add(index, delta);
        if (!this.#interval) this.#wake();
      };
      sampleChoice(engine, chat, { index, signal, onDelta }).then((generation) => {
        this.#finish(index, generation, sent);
        this.#release();
      }, fail);
    }
  }

  async *all(): AsyncGenerator<ReplyUpdate> {
    streams++;
    try {
      for (;;) {
        const next = this.#interval ? undefined : this.#take();
        if (next) {
          yield next;
          continue;
        }
        if (this.#failure) throw this.#failure.error;
        if (this.#open === 0) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      streams--;
      clearTimeout(this.#interval ?? undefined);
    }
  }

  #take(): ReplyUpdate | undefined {
    for (const [index, update] of this.#waiting) {
      this.#waiting.delete(index);
      if (this.#waiting.size === 0 && update.end === null)
        this.#interval = setTimeout(
          () => this.#release(),
          Math.max(intervalMs, streams * intervalOfStreamMs),
        );
      return update;
    }
    return undefined;
  }

  /** Lets everything be read that waits. */
  #release(): void {
    clearTimeout(this.#interval ?? undefined);
    this.#interval = null;
    this.#wake();
  }

  #add(index: number, { tokens, logprobs, topLogprobs }: GenerationDelta): void {
    const waiting = this.#waiting.get(index)?.delta;
    if (!waiting) {
      // Copied, because the buffered delta grows and the engine's own must not.
      const delta = { tokens: [...tokens], logprobs: [...logprobs], topLogprobs: [...topLogprobs] };
      this.#waiting.set(index, { index, delta, end: null });
      return;
    }
    for (const [position, token] of tokens.entries()) {
      waiting.tokens.push(token);
      waiting.logprobs.push(logprobs[position] ?? 0);
      waiting.topLogprobs.push(topLogprobs[position] ?? []);
    }
  }

  /** An engine may report the last tokens only in the result. */
  #finish(index: number, end: Generation, sent: number): void {
    const { tokens, logprobs, topLogprobs } = end;
    if (sent < tokens.length)
      this.#add(index, {
        tokens: tokens.slice(sent),
        logprobs: logprobs.slice(sent),
        topLogprobs: topLogprobs.slice(sent),
      });
    const delta = this.#waiting.get(index)?.delta ?? null;
    this.#waiting.set(index, { index, delta, end });
    this.#open--;
  }
}
