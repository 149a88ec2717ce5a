import type { RolloutFailure } from '../rollout.ts';
import type { SentRollout } from '../sent/sent-rollout.ts';
import type { ToWorker } from './protocol.ts';

/** How a lease ended: with its rollout, or why there is none. */
type LeaseResult = { type: 'ended'; rollout: SentRollout } | { type: 'lost'; failure: RolloutFailure };

/** The worker that has a lease. */
export interface LeaseHolder {
  readonly leases: Map<string, Lease>;
  send(message: ToWorker): void;
}

export interface LeaseOptions {
  /** Leases with a smaller number are given first; equal ones in order of arrival. */
  order: number;
  /** Time limit of the rollout with its clean-up, in milliseconds. */
  inAllMs: number;
  /** Time limit of the clean-up after an abort, in milliseconds. */
  afterAbortMs: number;
  /** The result if no worker answers in time. */
  overdue: RolloutFailure;
  /** Reads what a worker brings as its result. @throws MartingaleError that says what is wrong with it. */
  receive(result: unknown): SentRollout;
}

/** One rollout that waits for a worker, or that a worker has. */
export class Lease {
  readonly id: string;
  readonly options: LeaseOptions;
  readonly arrival: number;
  /** Number of times it was given. */
  epoch = 0;
  /** Number of workers that had it and were lost. */
  losses = 0;
  holder: LeaseHolder | undefined;
  /** The rollout, as it is sent. Undefined until it was given for the first time. */
  start: Uint8Array | undefined;
  /** Why its holder was told to stop. Nobody gets it afterwards. */
  abortReason: RolloutFailure | undefined;
  /** Limits the time with its holder. */
  timer: NodeJS.Timeout | undefined;
  readonly #given = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<LeaseResult>();

  constructor(id: string, arrival: number, options: LeaseOptions) {
    this.id = id;
    this.arrival = arrival;
    this.options = options;
  }

  /** Resolves when it is given for the first time, or has ended without. */
  get given(): Promise<void> {
    return this.#given.promise;
  }

  get ended(): Promise<LeaseResult> {
    return this.#ended.promise;
  }

  give(worker: LeaseHolder): void {
    this.holder = worker;
    worker.leases.set(this.id, this);
    this.epoch++;
    this.#given.resolve();
  }

  end(result: LeaseResult): void {
    clearTimeout(this.timer);
    this.#ended.resolve(result);
    this.#given.resolve();
  }
}

/** Leases that wait for a worker, the next one first. */
export class WaitingLeases {
  #leases: Lease[] = [];

  get size(): number {
    return this.#leases.length;
  }

  get first(): Lease | undefined {
    return this.#leases[0];
  }

  [Symbol.iterator](): Iterator<Lease> {
    return this.#leases[Symbol.iterator]();
  }

  /** One that waits again has the place that it had. */
  add(lease: Lease): void {
    let low = 0;
    let high = this.#leases.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#leases[middle];
      if (there && isBefore(there, lease)) low = middle + 1;
      else high = middle;
    }
    this.#leases.splice(low, 0, lease);
  }

  remove(lease: Lease): void {
    const at = this.#leases[0] === lease ? 0 : this.#leases.indexOf(lease);
    if (at >= 0) this.#leases.splice(at, 1);
  }
}

function isBefore(a: Lease, b: Lease): boolean {
  if (a.options.order !== b.options.order) return a.options.order < b.options.order;
  return a.arrival < b.arrival;
}
