interface Work<Result> {
  result: Promise<Result>;
  asking: number;
  /** Aborts it. */
  controller: AbortController;
}

/** Work that several ask for at the same time is done once, and given up when none of them waits for it any more. */
export class SharedWork<Key, Result> {
  readonly #inHand = new Map<Key, Work<Result>>();

  /** Joins the work of this key, or begins it. Rejects as it does, and with the signal's reason when that is aborted. */
  async join(
    key: Key,
    begin: (signal: AbortSignal) => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const work = this.#inHand.get(key) ?? this.#begin(key, begin);
    work.asking++;
    const left = Promise.withResolvers<never>();
    const leave = () => left.reject(signal?.reason);
    signal?.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([work.result, left.promise]);
    } finally {
      signal?.removeEventListener('abort', leave);
      work.asking--;
      if (work.asking === 0) this.#end(key, work);
    }
  }

  #begin(key: Key, begin: (signal: AbortSignal) => Promise<Result>): Work<Result> {
    const controller = new AbortController();
    const work: Work<Result> = { result: begin(controller.signal), asking: 0, controller };
    this.#inHand.set(key, work);
    return work;
  }

  /** Whoever comes from now on begins anew. */
  #end(key: Key, { controller }: Work<Result>): void {
    this.#inHand.delete(key);
    controller.abort();
  }
}
