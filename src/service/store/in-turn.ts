/** Does one thing at a time of those that concern the same: the next begins when the one before has ended. */
export class InTurn {
  readonly #last = new Map<string, Promise<unknown>>();

  async do<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(what);
    const done = before === undefined ? work() : before.then(work, work);
    this.#last.set(what, done);
    try {
      return await done;
    } finally {
      if (this.#last.get(what) === done) this.#last.delete(what);
    }
  }
}
