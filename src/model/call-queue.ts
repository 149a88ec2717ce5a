interface Waiter {
  admit: () => void;
}

/** A queue for at most `limit` slots, first come, first served. */
export class CallQueue {
  readonly #waiting = new Set<Waiter>();
  #limit: number;
  #inFlight = 0;
  #peak = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Calls in flight keep their slots when the limit drops. */
  set limit(limit: number) {
    this.#limit = limit;
    this.#admit();
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get peak(): number {
    return this.#peak;
  }

  /** Resolves when the caller has a slot. The caller must then call `leave()`. @throws the reason of `signal`. */
  async enter(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#waiting.size === 0 && this.#inFlight < this.#limit) return this.#take();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.delete(waiter);
      reject(signal?.reason);
    };
    const waiter: Waiter = {
      admit: () => {
        signal?.removeEventListener('abort', leave);
        this.#waiting.delete(waiter);
        this.#take();
        resolve();
      },
    };
    this.#waiting.add(waiter);
    signal?.addEventListener('abort', leave, { once: true });
    return promise;
  }

  leave(): void {
    this.#inFlight--;
    this.#admit();
  }

  #take(): void {
    this.#inFlight++;
    this.#peak = Math.max(this.#peak, this.#inFlight);
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      if (this.#inFlight >= this.#limit) return;
      waiter.admit();
    }
  }
}
