import type { ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';

/** The first pause; each further one is twice as long, up to the longest. */
const firstPauseMs = 250;
const longestPauseMs = 30_000;

/** The pauses of a queue whose work fails for no fault of its own, until it works again. */
export class Recovery {
  readonly #log: ServiceLog;
  readonly #told = new Set<(fault: ServiceError) => void>();
  #fault: ServiceError | null = null;
  #pauses = 0;
  #wake = () => {};
  #closed = false;

  constructor(log: ServiceLog) {
    this.#log = log;
  }

  /** What it waits to pass; null while all is well. */
  get fault(): ServiceError | null {
    return this.#fault;
  }

  /** Waits, longer each time, or until it is to be tried now. `job`: what waits; null for the queue itself. */
  async pause(fault: ServiceError, job: string | null): Promise<void> {
    if (this.#closed) return;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#pauses++);
    this.#fault = fault;
    const { code, message } = fault;
    const error = fault.cause instanceof Error ? fault.cause.message : message;
    this.#log({ level: 'error', event: 'training_queue_waits', code, error, job, pauseMs });
    for (const tell of this.#told) tell(fault);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, pauseMs);
    await promise;
    clearTimeout(timer);
  }

  /** Ends the pause, if there is one. */
  tryNow(): void {
    this.#wake();
  }

  /** The work is done: the next fault begins with the first pause. */
  over(): void {
    this.#pauses = 0;
    this.works();
  }

  /** It is at work again. */
  works(): void {
    if (this.#fault) this.#log({ level: 'info', event: 'training_queue_goes_on', code: this.#fault.code });
    this.#fault = null;
  }

  /** Ends the pause, and lets none begin. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves with `work`; rejects with the next fault where one comes first. */
  async unlessFault<Result>(work: Promise<Result>): Promise<Result> {
    const fault = Promise.withResolvers<never>();
    const tell = (error: ServiceError) => fault.reject(error);
    this.#told.add(tell);
    try {
      return await Promise.race([work, fault.promise]);
    } finally {
      this.#told.delete(tell);
    }
  }
}
