import { setInterval } from 'node:timers';
import { Calls } from './call-stream.ts';
import { Episode, type EpisodeOptions, type EpisodeProblem } from './episode.ts';

/** Longest pause between two looks for idle sessions, in milliseconds. */
const maxPauseMs = 5000;

export interface ServedSession {
  readonly episode: Episode;
  readonly calls: Calls;
}

/** What went wrong in a session. */
export interface SessionProblem extends EpisodeProblem {
  session: string;
}

interface HeldSession extends ServedSession {
  usedAt: number;
}

interface SessionsOptions {
  /** Most sessions at a time. */
  max: number;
  /** A session that is not used for so long is deleted, in milliseconds. */
  idleMs: number;
  onProblem: (problem: SessionProblem) => void;
}

/** The sessions of a server: those in use, and those that are being cleaned up. */
export class Sessions {
  readonly #held = new Map<string, HeldSession>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #reaper: NodeJS.Timeout;
  readonly #onProblem: (problem: SessionProblem) => void;
  #max: number;

  constructor({ max, idleMs, onProblem }: SessionsOptions) {
    this.#max = max;
    this.#onProblem = onProblem;
    const pauseMs = Math.min(maxPauseMs, Math.max(1, idleMs / 4));
    this.#reaper = setInterval(() => this.#deleteIdle(idleMs), pauseMs);
    this.#reaper.unref();
  }

  /** Sessions that hold something, clean-ups included. */
  get size(): number {
    return this.#held.size + this.#closing.size;
  }

  get isFull(): boolean {
    return this.size >= this.#max;
  }

  has(id: string): boolean {
    return this.#held.has(id) || this.#closing.has(id);
  }

  /** Begins an episode. */
  open(id: string, options: EpisodeOptions): void {
    const episode = new Episode(options);
    this.#held.set(id, { episode, calls: new Calls(), usedAt: performance.now() });
    void episode.problems().then((problems) => {
      for (const problem of problems) this.#onProblem({ ...problem, session: id });
    });
  }

  /** The session in use with this id, which counts as used now. */
  use(id: string): ServedSession | undefined {
    const session = this.#held.get(id);
    if (session) session.usedAt = performance.now();
    return session;
  }

  /** Ends a session and waits for its clean-up. Nothing happens to one that is not there. */
  delete(id: string): Promise<void> {
    const session = this.#held.get(id);
    if (session) {
      this.#held.delete(id);
      this.#closing.set(
        id,
        session.episode.close().finally(() => this.#closing.delete(id)),
      );
    }
    return this.#closing.get(id) ?? Promise.resolve();
  }

  /** Ends all sessions, takes no more, and waits for the clean-ups. */
  async close(): Promise<void> {
    this.#max = 0;
    clearInterval(this.#reaper);
    for (const id of this.#held.keys()) void this.delete(id);
    await Promise.all(this.#closing.values());
  }

  #deleteIdle(idleMs: number): void {
    const now = performance.now();
    for (const [id, session] of this.#held) {
      if (session.calls.running > 0) session.usedAt = now;
      else if (now - session.usedAt > idleMs) void this.delete(id);
    }
  }
}
