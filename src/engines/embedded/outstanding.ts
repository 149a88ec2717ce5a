interface Waiting<Result> {
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/** Calls to a worker thread that have not been answered, by the number that each was sent with. */
export class Outstanding<Result> {
  readonly #waiting = new Map<number, Waiting<Result>>();

  /** The answer that will come for a number. */
  wait(id: number): Promise<Result> {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** What nobody waits for is passed over: an answer may cross its cancellation. */
  resolve(id: number, result: Result): void {
    this.#take(id)?.resolve(result);
  }

  reject(id: number, error: unknown): void {
    this.#take(id)?.reject(error);
  }

  rejectAll(error: unknown): void {
    for (const id of [...this.#waiting.keys()]) this.reject(id, error);
  }

  #take(id: number): Waiting<Result> | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}
