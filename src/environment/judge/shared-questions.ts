interface Asked {
  answer: Promise<unknown>;
  askers: number;
  ending: AbortController;
}

/** Has what is asked by several at the same time asked once. */
export class SharedQuestions {
  readonly #inFlight = new Map<string, Asked>();

  /** Whether somebody is asking it already. */
  has(key: string): boolean {
    return this.#inFlight.has(key);
  }

  /**
   * The answer of `ask`, or of who asks the same already. An asker that is stopped ends its own wait; `ask` is stopped
   * when nobody waits for it any more.
   * @throws the reason of `signal`, and what `ask` throws.
   */
  async join(
    key: string,
    signal: AbortSignal,
    ask: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<unknown> {
    signal.throwIfAborted();
    const asked = this.#inFlight.get(key) ?? this.#begin(key, ask);
    asked.askers++;
    const stopped = Promise.withResolvers<never>();
    const stop = () => stopped.reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await Promise.race([asked.answer, stopped.promise]);
    } finally {
      signal.removeEventListener('abort', stop);
      if (--asked.askers === 0) {
        this.#forget(key, asked);
        asked.ending.abort(signal.reason);
      }
    }
  }

  #begin(key: string, ask: (signal: AbortSignal) => Promise<unknown>): Asked {
    const ending = new AbortController();
    const answer = ask(ending.signal);
    const asked = { answer, askers: 0, ending };
    this.#inFlight.set(key, asked);
    const over = () => this.#forget(key, asked);
    answer.then(over, over);
    return asked;
  }

  #forget(key: string, asked: Asked): void {
    if (this.#inFlight.get(key) === asked) this.#inFlight.delete(key);
  }
}
