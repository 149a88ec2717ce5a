import { untilAborted } from './deadline.ts';

interface Work<Result> {
  result: Promise<Result>;
  callers: number;
  controller: AbortController;
}

/** Runs work once that several callers request at the same time. Aborts it when no caller waits for it any more. */
export class SharedWork<Key, Result> {
  readonly #inFlight = new Map<Key, Work<Result>>();

  /** Whether work with this key is in flight. */
  has(key: Key): boolean {
    return this.#inFlight.has(key);
  }

  /**
   * Joins the work in flight for this key, or starts it. Rejects with the work's error, or with the signal's reason
   * when that aborts.
   * @param start Receives a signal that aborts when no caller is left, with the abort reason of the last one.
   */
  async join(
    key: Key,
    start: (signal: AbortSignal) => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const work = this.#inFlight.get(key) ?? this.#start(key, start);
    work.callers++;
    try {
      return await untilAborted(work.result, signal);
    } finally {
      work.callers--;
      if (work.callers === 0) {
        this.#forget(key, work);
        work.controller.abort(signal?.reason);
      }
    }
  }

  #start(key: Key, start: (signal: AbortSignal) => Promise<Result>): Work<Result> {
    const controller = new AbortController();
    const work: Work<Result> = { result: start(controller.signal), callers: 0, controller };
    this.#inFlight.set(key, work);
    // A caller that comes after the work has settled starts it again.
    const forget = () => this.#forget(key, work);
    work.result.then(forget, forget);
    return work;
  }

  #forget(key: Key, work: Work<Result>): void {
    if (this.#inFlight.get(key) === work) this.#inFlight.delete(key);
  }
}
