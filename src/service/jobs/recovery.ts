import { MartingaleError } from '../../contract/index.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { causesOf, machineFaultOf } from '../faults.ts';
import type { ServiceLog } from '../telemetry.ts';

/** The first pause. Each later one is twice as long, up to the longest. */
export const firstPauseMs = 250;
export const maxPauseMs = 30_000;

/** The current fault of the queue, its log events and its pauses, while jobs fail for reasons outside the job. */
export class Recovery {
  readonly #log: ServiceLog;
  readonly #listeners = new Set<(fault: ServiceError) => void>();
  #fault: ServiceError | null = null;
  #pauses = 0;
  #wake = () => {};
  #closed = false;

  constructor(log: ServiceLog) {
    this.#log = log;
  }

  /** The fault that the queue waits for to pass; null while there is none. */
  get fault(): ServiceError | null {
    return this.#fault;
  }

  /** Reports a fault. `job`: the job that waits, or null when the whole queue waits. */
  report(fault: ServiceError, { job, pauseMs }: { job: string | null; pauseMs: number }): void {
    this.#fault = fault;
    const { code, message } = fault;
    const error = fault.cause instanceof Error ? fault.cause.message : message;
    this.#log({ level: 'error', event: 'training_queue_paused', code, error, job, pauseMs });
    for (const listener of this.#listeners) listener(fault);
  }

  /** Waits for `pauseMs` or until `tryNow`, with `fault` as the current fault. */
  async wait(fault: ServiceError, pauseMs: number): Promise<void> {
    if (this.#closed) return;
    this.#fault = fault;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, pauseMs);
    await promise;
    clearTimeout(timer);
  }

  /** Reports a fault and waits, twice as long each time. */
  async pause(fault: ServiceError, job: string | null): Promise<void> {
    if (this.#closed) return;
    const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** this.#pauses++);
    this.report(fault, { job, pauseMs });
    await this.wait(fault, pauseMs);
  }

  /** Ends the current pause, if any. */
  tryNow(): void {
    this.#wake();
  }

  /** Work was completed: clears the fault, and the next pause is the shortest again. */
  succeed(): void {
    this.#pauses = 0;
    this.clear();
  }

  /** Work has succeeded: clears the fault. */
  clear(): void {
    if (this.#fault) this.#log({ level: 'info', event: 'training_queue_resumed', code: this.#fault.code });
    this.#fault = null;
  }

  /** Ends the current pause and prevents later ones. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves with `work`. Rejects with the next fault if one comes first, and with `late` after `timeoutMs`. */
  async unlessFault(
    work: Promise<void>,
    { timeoutMs, late }: { timeoutMs: number; late: ServiceError },
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => reject(late), timeoutMs);
    this.#listeners.add(reject);
    work.then(resolve, reject);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#listeners.delete(reject);
    }
  }
}

/** After this many deaths of the engine during a job, the job fails. */
export const maxEngineDeaths = 3;

const deathCodes = new Set(['worker_died', 'out_of_memory']);
const busyCodes = new Set(['engine_closed', 'constraints_busy']);

/**
 * Why the run of a job ended. `machine`: a fault that will pass. `engine`: the engine died, perhaps because of the job.
 * `job`: an error that would occur again.
 */
type JobFault = { type: 'machine' | 'engine'; fault: ServiceError } | { type: 'job' };

export function jobFaultOf(error: unknown): JobFault {
  // The engine's error may be the cause of an error from preparing the job.
  const codes = [...causesOf(error)].flatMap((cause) =>
    MartingaleError.isInstance(cause) ? [cause.code] : [],
  );
  const death = codes.find((code) => deathCodes.has(code));
  const fault = machineFaultOf(error);
  if (death !== undefined && fault === null) return { type: 'engine', fault: unavailable(death, error) };
  const refusals = [...causesOf(error)].filter((cause) => cause instanceof ServiceError);
  const busy =
    codes.find((code) => busyCodes.has(code)) ?? refusals.find(({ status }) => status === 503)?.code;
  if (fault !== null) return { type: 'machine', fault };
  return busy === undefined ? { type: 'job' } : { type: 'machine', fault: unavailable(busy, error) };
}

/** Turns any error into the fault that the queue waits for to pass. */
export function queueFaultOf(error: unknown): ServiceError {
  return machineFaultOf(error) ?? unavailable('training_queue_failed', error);
}

const unavailable = (code: string, cause: unknown) =>
  new ServiceError(503, code, messageOf(cause), { cause });
