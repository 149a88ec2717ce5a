import type { ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';

/** The first pause; each further one is twice as long, up to the longest. */
export const firstPauseMs = 250;
export const longestPauseMs = 30_000;

/** What a queue says, and how it waits, while work fails for no fault of its own, until it works again. */
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

  /** Says that something waits: a job, or with null the queue itself. */
  tell(fault: ServiceError, { job, pauseMs }: { job: string | null; pauseMs: number }): void {
    this.#fault = fault;
    const { code, message } = fault;
    const error = fault.cause instanceof Error ? fault.cause.message : message;
    this.#log({ level: 'error', event: 'training_queue_waits', code, error, job, pauseMs });
    for (const told of this.#told) told(fault);
  }

  /** Waits for so long, or until it is to be tried now, and is known to wait for the fault to pass. */
  async wait(fault: ServiceError, pauseMs: number): Promise<void> {
    if (this.#closed) return;
    this.#fault = fault;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, pauseMs);
    await promise;
    clearTimeout(timer);
  }

  /** Says so and waits, longer each time. */
  async pause(fault: ServiceError, job: string | null): Promise<void> {
    if (this.#closed) return;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#pauses++);
    this.tell(fault, { job, pauseMs });
    await this.wait(fault, pauseMs);
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

  /** Resolves with `work`; rejects with the next fault where one comes first, and with `late` where it takes longer. */
  async unlessFault(
    work: Promise<void>,
    { timeoutMs, late }: { timeoutMs: number; late: ServiceError },
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => reject(late), timeoutMs);
    this.#told.add(reject);
    work.then(resolve, reject);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#told.delete(reject);
    }
  }
}
