/** Who asks for something that many ask for. */
export interface Caller {
  /** Whom it counts for: tenants take turns, and each has its share of the room. Absent: one without a name. */
  tenant?: string | undefined;
  /** Aborted when nobody waits for it any more. */
  signal?: AbortSignal | undefined;
}

/** Why there was no turn: too many wait, too many of the same tenant do, or it took too long. */
export type NoTurn = 'line_full' | 'share_full' | 'waited_long';

export interface FairQueueOptions {
  /**
   * How many may wait: of one tenant as many as are left free, so that half of the places are its own where nobody else
   * waits, and whoever comes later finds room.
   */
  limit: number;
  /** How long one waits for its turn at the most. */
  patienceMs: number;
  /** What one is told that gets no turn. */
  refusal: (why: NoTurn) => Error;
}

interface Place {
  begin: () => void;
}

/**
 * A line for what can be done only one at a time. Tenants take turns, so that one with many tasks keeps another with
 * few waiting for one of them and not for all; the tasks of one tenant go in the order in which they came.
 */
export class FairQueue {
  readonly #options: FairQueueOptions;
  /** By tenant, in the order of their turns. None is empty. */
  readonly #places = new Map<string, Set<Place>>();
  #waiting = 0;
  #occupied = false;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** How many wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Does a task when it is its turn. Rejects with the refusal of the options where there is no room or it takes too
   * long, and with the signal's reason when that is aborted before its turn: its place is free at once.
   */
  async run<Result>(task: () => Promise<Result>, { tenant = '', signal }: Caller = {}): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#occupied) await this.#turn(tenant, signal);
    this.#occupied = true;
    try {
      signal?.throwIfAborted();
      return await task();
    } finally {
      this.#callNext();
    }
  }

  /** Resolves when everything is left to this one. */
  #turn(tenant: string, signal: AbortSignal | undefined): Promise<void> {
    const { limit, patienceMs, refusal } = this.#options;
    const free = limit - this.#waiting;
    if (free <= 0) throw refusal('line_full');
    const places = this.#places.get(tenant) ?? new Set();
    if (places.size >= free) throw refusal('share_full');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      clearTimeout(patience);
      signal?.removeEventListener('abort', onAbort);
      this.#waiting--;
      places.delete(place);
      if (places.size === 0) this.#places.delete(tenant);
    };
    const onAbort = () => {
      leave();
      reject(signal?.reason);
    };
    const place: Place = {
      begin: () => {
        leave();
        resolve();
      },
    };
    const patience = setTimeout(() => {
      leave();
      reject(refusal('waited_long'));
    }, patienceMs).unref();
    signal?.addEventListener('abort', onAbort, { once: true });
    places.add(place);
    this.#places.set(tenant, places);
    this.#waiting++;
    return promise;
  }

  #callNext(): void {
    const [first] = this.#places;
    if (!first) {
      this.#occupied = false;
      return;
    }
    const [tenant, places] = first;
    const [place] = places;
    // Its further ones come after those of all others.
    this.#places.delete(tenant);
    this.#places.set(tenant, places);
    place?.begin();
  }
}
