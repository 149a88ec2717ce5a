/** An answer in progress: a reply, the replies of a search, or the scores of a prompt. */
export abstract class Answer {
  /** The id of the call that it answers. */
  id = -1;
  #cancelled = false;
  #failure: unknown;

  abstract get complete(): boolean;

  abstract finish(): unknown;

  get ended(): boolean {
    return this.complete || this.#cancelled || this.#failure !== undefined;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** The error that ended it; undefined if there was none. A failed answer has ended and has no result. */
  get failure(): unknown {
    return this.#failure;
  }

  cancel(): void {
    this.#cancelled = true;
  }

  /** Ends it without a result, as `cancel` does, and reports the reason. */
  fail(reason: unknown): void {
    this.#failure ??= reason ?? new Error('the answer failed');
  }
}
